// SPDX-License-Identifier: LGPL-2.1-or-later
// What a set of headers says of the driver's binary interface, as text that can be compared.
#pragma once

#include <map>
#include <string>

namespace gstzc::test {

using AbiEntries = std::map<std::string, std::string>; // "sizeof CUstream" → "8"

AbiEntries ourAbi();
AbiEntries ourEglAbi();
AbiEntries toolkitAbi();
AbiEntries toolkitEglAbi();

} // namespace gstzc::test
