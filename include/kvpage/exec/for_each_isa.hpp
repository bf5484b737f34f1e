/// \file Compiles the file named by KVPAGE_ISA_BODY once per instruction set, each in its own namespace (see isa.hpp).
/// No include guard: every kernel includes it once for its own body.

#ifdef KVPAGE_ISA_BODY
KVPAGE_ISA_BEGIN_GENERIC
#include KVPAGE_ISA_BODY
KVPAGE_ISA_END_GENERIC
#if KVPAGE_ISA_X86
KVPAGE_ISA_BEGIN_AVX2
#include KVPAGE_ISA_BODY
KVPAGE_ISA_END
KVPAGE_ISA_BEGIN_AVXVNNI
#include KVPAGE_ISA_BODY
KVPAGE_ISA_END
KVPAGE_ISA_BEGIN_AVX512VNNI
#include KVPAGE_ISA_BODY
KVPAGE_ISA_END
#endif
#undef KVPAGE_ISA_BODY
#endif
