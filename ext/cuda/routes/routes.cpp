// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/routes/route.h"

namespace gstzc::cuda {

std::vector<std::unique_ptr<ImportRoute>> allRoutes(const ContextPtr &context) {
  std::vector<std::unique_ptr<ImportRoute>> routes;
  for (const auto make : {
           &makeDmabufFdRoute,
           &makeEglImageRoute,
           &makeHostRegisterRoute,
           &makeVulkanBridgeRoute,
           &makeStagedCopyRoute,
       })
    routes.push_back(make(context));
  return routes;
}

} // namespace gstzc::cuda
