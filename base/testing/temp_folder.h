#ifndef EVENSTEP_BASE_TESTING_TEMP_FOLDER_H_
#define EVENSTEP_BASE_TESTING_TEMP_FOLDER_H_

// A folder of a test's own, removed with everything in it. For tests only.

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace evenstep {

class TempFolder {
 public:
  TempFolder() {
    std::string name =
        std::filesystem::temp_directory_path() / "evenstep-test-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) abort();
    path_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace evenstep

#endif  // EVENSTEP_BASE_TESTING_TEMP_FOLDER_H_
