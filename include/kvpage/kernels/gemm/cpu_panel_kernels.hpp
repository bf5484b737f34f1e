/// \file PanelKernels: everything that packing and running one weight format needs, as one table of functions.
#pragma once

#include <kvpage/exec/simd.hpp>
#include <kvpage/kernels/gemm/cpu_panel_codec.hpp>
#include <kvpage/kernels/gemm/cpu_tile_input.hpp>

#define KVPAGE_ISA_BODY <kvpage/kernels/gemm/cpu_panel_body.hpp>
#include <kvpage/exec/for_each_isa.hpp>
#define KVPAGE_ISA_BODY <kvpage/kernels/gemm/cpu_plain_body.hpp>
#include <kvpage/exec/for_each_isa.hpp>

KVPAGE_BEGIN_NAMESPACE

/// The packed kernels of one weight format; one constant object per format.
struct PanelKernels {
  std::string_view format;       ///< name of the weight format
  bool quantized_input;          ///< takes QuantizedRows; otherwise float rows
  std::int64_t step_cols;        ///< weights per row and step
  std::int64_t step_bytes;       ///< of 32 rows
  std::int64_t block_bytes;      ///< of one row and step in the file's format
  IsaTable<detail::PanelTile> tiles;
  /// Writes one step of one row from the file's format. False: one of its scales is NaN or infinite.
  bool (*write)(const std::byte* block, int row, std::byte* step) noexcept;
  /// Reads one step of one row as floats [step_cols].
  void (*read)(const std::byte* step, int row, float* out) noexcept;
};

/// Rows of a tile that all paths of a Cpu can run.
constexpr int max_tile_rows(Isa isa) noexcept {
#if KVPAGE_ISA_X86
  constexpr IsaTable<int> kRows{generic::kMaxTileRows, avx2::kMaxTileRows, avxvnni::kMaxTileRows, avx512vnni::kMaxTileRows};
#else
  constexpr IsaTable<int> kRows{generic::kMaxTileRows, generic::kMaxTileRows, generic::kMaxTileRows, generic::kMaxTileRows};
#endif
  return kRows[static_cast<std::size_t>(isa)];
}

namespace detail {
template <PanelWeight W>
bool write_panel_row(const std::byte* block, int row, std::byte* step) noexcept {
  PanelBlock unpacked{};
  W::unpack(block, unpacked);
  PanelCodec<W::kPanel>::write(unpacked, row, step);
  return W::scales_finite(block);
}

template <PlainWeight W>
bool write_plain_row(const std::byte* element, int row, std::byte* step) noexcept {
  std::memcpy(step + row * W::kBlockBytes, element, static_cast<std::size_t>(W::kBlockBytes));
  return W::scales_finite(element);
}

template <PlainWeight W>
void read_plain_row(const std::byte* step, int row, float* out) noexcept {
  W::decode(step + row * W::kBlockBytes, out);
}
}  // namespace detail

/// The kernels of format W: compiled where this is named, once per PanelShape and instruction set.
template <class W>
inline constexpr PanelKernels kPanelKernels = [] {
  static_assert(PanelWeight<W> || PlainWeight<W>, "a packed GEMM needs the format's kPanel and unpack, or its kPlainElement");
  if constexpr (PanelWeight<W>) {
    return PanelKernels{W::kName,
                        true,
                        W::kPanel.block,
                        PanelLayout{W::kPanel}.step_bytes(),
                        W::kBlockBytes,
                        {KVPAGE_ISA_TABLE(panel_tile<W::kPanel>)},
                        &detail::write_panel_row<W>,
                        &detail::PanelCodec<W::kPanel>::read};
  } else {
    return PanelKernels{W::kName,
                        false,
                        1,
                        kPanelRows * W::kBlockBytes,
                        W::kBlockBytes,
                        {KVPAGE_ISA_TABLE(plain_tile<W::kPlainElement>)},
                        &detail::write_plain_row<W>,
                        &detail::read_plain_row<W>};
  }
}();

KVPAGE_END_NAMESPACE
