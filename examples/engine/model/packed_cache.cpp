#include "engine/model/packed_cache.hpp"

#include "engine/loader/file_descriptor.hpp"
#include "engine/loader/read_at.hpp"
#include "engine/loader/replacement_file.hpp"
#include "engine/model/model_digest.hpp"

#include <kvpage/kernels/gemm/cpu_panel_layout.hpp>

#include <fcntl.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <vector>

namespace kvpage::engine {
namespace {

/// Bytes with a hash of their own: they are still in a worker's cache when they are hashed.
constexpr std::int64_t kPieceBytes = std::int64_t{256} << 10;
/// Bytes that one worker reads in one go: whole huge pages.
constexpr std::int64_t kReadBytes = std::int64_t{2} << 20;
constexpr std::int64_t kFrontAlignment = 4096;

/// The file: a front of this, the hashes of all pieces, and zeros up to kFrontAlignment; then the panels as they are in memory.
struct Header {
  Hash128 front;  ///< of what follows in the front
  char magic[16];
  Hash128 layout;
  Hash128 model;  ///< hash and stamp of the model that the panels were made from
  Hash128 model_stamp;
};
constexpr char kMagic[17] = "kvpage panels 1\n";

/// The front of the file of `num_bytes` bytes of panels.
class Front {
 public:
  explicit Front(std::size_t num_bytes) : num_pieces_((num_bytes + kPieceBytes - 1) / kPieceBytes) {
    const std::size_t used = sizeof(Header) + num_pieces_ * sizeof(Hash128);
    bytes_.resize((used + kFrontAlignment - 1) / kFrontAlignment * kFrontAlignment);
  }

  std::span<std::byte> bytes() noexcept { return bytes_; }
  Header header() const noexcept {
    Header header;
    std::memcpy(&header, bytes_.data(), sizeof header);
    return header;
  }
  /// Hash of piece i.
  Hash128 piece(std::size_t i) const noexcept {
    Hash128 hash;
    std::memcpy(&hash, place_of(i), sizeof hash);
    return hash;
  }
  void set_piece(std::size_t i, const Hash128& hash) noexcept { std::memcpy(const_cast<std::byte*>(place_of(i)), &hash, sizeof hash); }

  /// Puts the header into its place, with the hash of the whole front.
  void seal(Header header) noexcept {
    std::memcpy(bytes_.data(), &header, sizeof header);
    header.front = hash();
    std::memcpy(bytes_.data(), &header, sizeof header);
  }
  bool sealed() const noexcept { return header().front == hash(); }

 private:
  const std::byte* place_of(std::size_t i) const noexcept { return bytes_.data() + sizeof(Header) + i * sizeof(Hash128); }
  Hash128 hash() const noexcept { return hash128(std::span(bytes_).subspan(sizeof(Hash128))); }

  std::size_t num_pieces_;
  std::vector<std::byte> bytes_;
};

template <class Byte>
std::span<Byte> piece_of(std::span<Byte> memory, std::size_t i) {
  return memory.subspan(i * kPieceBytes, std::min<std::size_t>(kPieceBytes, memory.size() - i * kPieceBytes));
}

/// Reads all panels, and compares each piece with its hash while it is in the cache.
bool read_panels(int fd, Front& front, std::span<std::byte> memory, const LoadWork& work) {
  constexpr auto kPieces = static_cast<std::size_t>(kReadBytes / kPieceBytes);
  const std::size_t begin = front.bytes().size();
  std::atomic<bool> good{true};
  for_each_piece(work, "reading", std::ssize(memory), kReadBytes, [&](std::int64_t read) {
    const std::size_t first = static_cast<std::size_t>(read) * kPieces;
    for (std::size_t i = first; i < first + kPieces && i * kPieceBytes < memory.size(); ++i) {
      const auto piece = piece_of(memory, i);
      const bool whole = read_at(fd, begin + i * kPieceBytes, piece) == 0 && hash128(piece) == front.piece(i);
      if (!whole) good.store(false, std::memory_order_relaxed);
    }
  });
  return good.load();
}

/// The model is known to be as it was: the next start need not read it to know. Without effect in a folder that cannot be written.
void renew_stamp(int fd, Front& front, const Hash128& stamp) {
  Header header = front.header();
  if (stamp == Hash128{} || header.model_stamp == stamp) return;
  header.model_stamp = stamp;
  front.seal(header);
  const FileDescriptor writable{::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_WRONLY | O_CLOEXEC)};
  if (writable.get() >= 0) static_cast<void>(::pwrite(writable.get(), front.bytes().data(), kFrontAlignment, 0));
}

std::string hex(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte b : bytes) {
    text += kDigits[std::to_integer<std::size_t>(b >> 4)];
    text += kDigits[std::to_integer<std::size_t>(b & std::byte{15})];
  }
  return text;
}

constexpr std::size_t kNamedDigestBytes = 16;

}  // namespace

PackedCache::PackedCache(const PackedCacheKey& key, const Gguf& file, const LoadWork& work)
    : layout_(key.layout), work_(work), content_(file, work) {
  // A model that cannot be read fails its load, whatever the name.
  const Sha256Digest digest = model_digest(file).value_or(Sha256Digest{});
  const std::string name = hex(std::span(digest).first<kNamedDigestBytes>());
  path_ = key.folder / (name + "-" + key.isa + "-v" + std::to_string(kPanelLayoutVersion) + ".kvpack");
}

bool PackedCache::restore(std::span<std::byte> memory) {
  content_.watch();
  const auto restored = read(memory);
  if (!restored) work_.say("packed cache " + path_.string() + ": " + restored.error() + "; packing the weights again");
  return restored && *restored;
}

void PackedCache::store(std::span<const std::byte> memory) {
  const auto written = write(memory);
  if (!written) work_.say("packed cache " + path_.string() + ": not written: " + written.error());
}

Expected<bool, std::string> PackedCache::read(std::span<std::byte> memory) {
  const auto refuse = [](std::string why) { return Unexpected{std::move(why)}; };
  // O_NONBLOCK: a named pipe must not wait for a writer.
  const FileDescriptor file{::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.get() < 0 && errno == ENOENT) return false;
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) return refuse(std::system_category().message(errno));
  if (!S_ISREG(status.st_mode)) return refuse("not a regular file");
  Front front(memory.size());
  const std::size_t wanted = front.bytes().size() + memory.size();
  if (status.st_size < 0 || static_cast<std::size_t>(status.st_size) != wanted) {
    return refuse("it has " + std::to_string(status.st_size) + " bytes instead of " + std::to_string(wanted));
  }
  if (read_at(file.get(), 0, front.bytes()) != 0 || !front.sealed()) return refuse("its header is damaged");
  const Header header = front.header();
  if (std::memcmp(header.magic, kMagic, sizeof header.magic) != 0 || header.layout != layout_) {
    return refuse("it was written for kernels with another layout");
  }
  const Hash128 stamp = content_.stamp();
  const bool same_stamp = stamp != Hash128{} && stamp == header.model_stamp;
  if (!same_stamp && content_.hash() != header.model) return refuse("the model file has changed since it was written");
  if (!read_panels(file.get(), front, memory, work_)) return refuse("its panels are damaged");
  renew_stamp(file.get(), front, stamp);
  return true;
}

Expected<void, std::string> PackedCache::write(std::span<const std::byte> memory) {
  constexpr std::size_t kWriteBytes = std::size_t{16} << 20;
  if (!content_.held()) return Unexpected{std::string("the model file changed while it was loaded")};
  Front front(memory.size());
  work_.parallel(static_cast<std::int64_t>((memory.size() + kPieceBytes - 1) / kPieceBytes), [&](std::int64_t i) {
    front.set_piece(static_cast<std::size_t>(i), hash128(piece_of(memory, static_cast<std::size_t>(i))));
  });
  Header header{.front = {}, .magic = {}, .layout = layout_, .model = content_.hash(), .model_stamp = content_.stamp()};
  std::memcpy(header.magic, kMagic, sizeof header.magic);
  front.seal(header);
  auto file = ReplacementFile::create(path_, std::ssize(front.bytes()) + std::ssize(memory));
  if (!file) return Unexpected{std::move(file.error())};
  if (auto written = file->write(front.bytes()); !written) return written;
  for (std::size_t begin = 0; begin < memory.size(); begin += kWriteBytes) {
    const auto part = memory.subspan(begin, std::min(kWriteBytes, memory.size() - begin));
    if (auto written = file->write(part); !written) return written;
    work_.report("writing", static_cast<std::int64_t>(begin + part.size()), std::ssize(memory));
  }
  return file->commit();
}

}  // namespace kvpage::engine
