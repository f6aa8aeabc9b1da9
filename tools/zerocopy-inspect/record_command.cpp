// SPDX-License-Identifier: LGPL-2.1-or-later
// record: a device as a file for --profile.
#include <sys/utsname.h>

#include "gst/drm/profile/json_writer.h"
#include "display_source.h"
#include "tool.h"

#include "gstzc-config.h"

namespace gstzc::inspect {

Result<Answer> recordProfile(const CommandLine &line) {
  auto profile = readDevice({line.profile, line.device, ""});
  if (!profile) return profile.error();
  const KmsSnapshot &snapshot = profile->snapshot;
  if (profile->provenance.empty()) {
    utsname machine = {};
    uname(&machine);
    profile->provenance =
        std::string("recorded by zerocopy-inspect ") + GSTZC_VERSION + " on " + machine.sysname + " " + machine.release;
    profile->notes.push_back("What TEST_ONLY refuses was not asked: scaling and size limits are open.");
  }
  const std::string text = writeProfile(*profile);
  if (line.output.empty()) return Answer{Exit::Shown, text.ends_with("\n") ? text : text + "\n"};
  if (auto written = writeFile(line.output, text); !written) return written.error();
  if (!line.json) {
    const size_t planes = snapshot.planes.size();
    return Answer{Exit::Shown, line.output + ": " + (snapshot.driver.empty() ? "" : snapshot.driver + ", ") +
                                   std::to_string(planes) + (planes == 1 ? " plane" : " planes") +
                                   ". Use it with --profile " + line.output + "\n"};
  }
  JsonWriter json;
  json.beginObject();
  json.member("written", line.output);
  json.member("driver", snapshot.driver);
  json.member("planes", snapshot.planes.size());
  json.endObject();
  return Answer{Exit::Shown, json.text()};
}

} // namespace gstzc::inspect
