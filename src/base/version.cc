#include <braid/version.h>

namespace braid {

Version library_version() noexcept { return kHeaderVersion; }

}  // namespace braid
