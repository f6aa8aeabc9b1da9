// SPDX-License-Identifier: LGPL-2.1-or-later
// negotiate: a launch fragment against a display.
#include "fragment.h"
#include "negotiate_report.h"
#include "tool.h"

namespace gstzc::inspect {

Result<Answer> negotiateFragment(const CommandLine &line) {
  const std::string &fragment = line.arguments.front();
  auto parsed = parseFragment(fragment); // before a device is opened
  if (!parsed) return parsed.error();
  const DisplayRequest request{line.profile, line.device, line.connector};
  auto source = openDisplaySource(request);
  if (!source) return source.error();
  auto result = report(parsed.take(), request, *source, line.timeout);
  if (!result) return result.error();
  const auto verdict = result->negotiation.verdict;
  Answer answer{verdict == Negotiation::Verdict::Possible     ? Exit::Shown
                : verdict == Negotiation::Verdict::Impossible ? Exit::Impossible
                                                              : Exit::BadInput,
                ""};
  if (line.json) {
    JsonWriter json;
    writeReport(&json, fragment, *source, *result);
    answer.text = json.text();
  } else {
    answer.text = toText(fragment, *source, *result);
  }
  return answer;
}

} // namespace gstzc::inspect
