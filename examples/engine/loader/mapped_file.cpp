/// \file Mapping of files, and the SIGBUS handler that names a file which shrank.
#include "engine/loader/mapped_file.hpp"

#include "engine/loader/file_descriptor.hpp"
#include "engine/loader/read_at.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kvpage::engine {

struct MappedFile::Region {
  Region(FileDescriptor file, const FileStamp& opened) : descriptor(std::move(file)), stamp(opened), stamp_is_telling(opened.settled()) {}

  FileDescriptor descriptor;
  const std::byte* data = nullptr;
  std::size_t num_bytes = 0;      // mapped
  FileStamp stamp;
  bool stamp_is_telling;
  std::string path;
  std::string shrank_text;  // made beforehand: a signal handler may not allocate

  LoadError shrank() const {
    return {path, {}, std::to_string(num_bytes) + " bytes", "that the file shrank while it was read",
            "do not write to a model file that is in use; download it again"};
  }
};

namespace {

constexpr int kLoadFailedExitCode = 3;

// Lock-free, because the signal handler reads it. A map that finds no free slot works, only unnamed if it shrinks.
std::array<std::atomic<const MappedFile::Region*>, 1024> mapped_regions{};
struct sigaction previous_action;

void enter_region(const MappedFile::Region* region) noexcept {
  for (auto& slot : mapped_regions) {
    const MappedFile::Region* expected = nullptr;
    if (slot.compare_exchange_strong(expected, region)) return;
  }
}

void leave_region(const MappedFile::Region* region) noexcept {
  for (auto& slot : mapped_regions) {
    const MappedFile::Region* expected = region;
    if (slot.compare_exchange_strong(expected, nullptr)) return;
  }
}

// Only async-signal-safe calls.
void on_sigbus(int, siginfo_t* info, void*) {
  const auto* address = static_cast<const std::byte*>(info->si_addr);
  for (const auto& slot : mapped_regions) {
    const MappedFile::Region* region = slot.load();
    if (region == nullptr || address < region->data || address >= region->data + region->num_bytes) continue;
    const ssize_t written = ::write(STDERR_FILENO, region->shrank_text.data(), region->shrank_text.size());
    static_cast<void>(written);  // the exit code still tells
    ::_exit(kLoadFailedExitCode);
  }
  ::sigaction(SIGBUS, &previous_action, nullptr);  // not ours: the access runs again and has its previous effect
}

std::size_t page_bytes() noexcept { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

std::string errno_text(int error) { return std::system_category().message(error); }

Unexpected<LoadError> refuse(const std::string& path, std::string found, std::string hint) {
  return Unexpected{LoadError{path, {}, "a readable, non-empty model file", std::move(found), std::move(hint)}};
}

}  // namespace

Expected<MappedFile, LoadError> MappedFile::open(const std::filesystem::path& path) {
  const std::string name = path.string();
  // O_NONBLOCK: opening a named pipe returns at once instead of waiting for a writer; files ignore it.
  FileDescriptor file{::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.get() < 0) return refuse(name, errno_text(errno), "check the path and its permissions");
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return refuse(name, errno_text(errno), "check the path and its permissions");
  if (S_ISDIR(status.st_mode)) return refuse(name, "a directory", "name the model file inside it");
  if (!S_ISREG(status.st_mode)) return refuse(name, "a device or pipe", "store the model in a regular file first");
  if (status.st_size <= 0) return refuse(name, "an empty file", "download it again");

  const auto num_bytes = static_cast<std::size_t>(status.st_size);
  void* data = ::mmap(nullptr, num_bytes, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) return refuse(name, errno_text(errno), "the address space may be limited: see ulimit -v");
  auto region = std::make_unique<Region>(std::move(file), FileStamp(status));
  region->data = static_cast<const std::byte*>(data);
  region->num_bytes = num_bytes;
  region->path = name;
  region->shrank_text = region->shrank().to_string() + "\n";
  enter_region(region.get());
  return MappedFile{std::move(region)};
}

MappedFile::MappedFile(std::unique_ptr<Region> region) noexcept : region_(std::move(region)) {}
MappedFile::MappedFile(MappedFile&&) noexcept = default;

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(region_, other.region_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!region_) return;
  leave_region(region_.get());
  ::munmap(const_cast<std::byte*>(region_->data), region_->num_bytes);
}

std::span<const std::byte> MappedFile::bytes() const noexcept { return {region_->data, region_->num_bytes}; }
std::int64_t MappedFile::file_bytes() const noexcept { return region_->stamp.num_bytes; }
const std::string& MappedFile::path() const noexcept { return region_->path; }
const FileStamp& MappedFile::stamp() const noexcept { return region_->stamp; }
bool MappedFile::stamp_is_telling() const noexcept { return region_->stamp_is_telling; }

Expected<void, LoadError> MappedFile::read(std::span<const std::byte> part, std::span<std::byte> out) const {
  const int failed = read_at(region_->descriptor.get(), static_cast<std::size_t>(part.data() - region_->data), out);
  if (failed == 0) return {};
  if (failed == kFileEnds) return Unexpected{region_->shrank()};
  return refuse(path(), errno_text(failed), "the disk or the network may be faulty: try again, or copy the file elsewhere");
}

void MappedFile::separate(std::size_t offset) const noexcept {
  const std::size_t begin = (offset + page_bytes() - 1) / page_bytes() * page_bytes();
  if (begin >= region_->num_bytes) return;
  // The system joins neighbouring maps unless they differ: these need not be in core dumps. An access never maps pages of another map.
  // No effect on values, so a refusal is only memory that stays in use.
  for (const int advice : {MADV_DONTDUMP, MADV_DONTNEED}) {
    ::madvise(const_cast<std::byte*>(region_->data) + begin, region_->num_bytes - begin, advice);
  }
}

TruncationGuard::TruncationGuard() {
  struct sigaction action {};
  action.sa_sigaction = on_sigbus;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, &previous_action);
}

TruncationGuard::~TruncationGuard() { ::sigaction(SIGBUS, &previous_action, nullptr); }

}  // namespace kvpage::engine
