/// \file The version of kvpage; the build reads it from here.
#pragma once

#define KVPAGE_VERSION_MAJOR 0
#define KVPAGE_VERSION_MINOR 1
#define KVPAGE_VERSION_PATCH 0
