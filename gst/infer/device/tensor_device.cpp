// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/device/tensor_device.h"

#include "gst/zerocopy/core/offers.h"

namespace gstzc::infer {
namespace {

std::string offerOf(const std::string &name) { return "tensor-device/" + name; }
std::string pluginOf(const std::string &name) { return "zerocopy" + name; }

TensorDeviceMaker makerOf(const std::string &name) {
  return reinterpret_cast<TensorDeviceMaker>(offered(offerOf(name)));
}

bool isInstalled(const std::string &plugin) {
  GstPlugin *found = gst_registry_find_plugin(gst_registry_get(), plugin.c_str());
  const bool installed = found != nullptr;
  gst_clear_object(&found);
  return installed;
}

} // namespace

void registerTensorDevice(const std::string &name, TensorDeviceMaker maker) {
  offer(offerOf(name), reinterpret_cast<AnyFunction>(maker));
}

bool haveTensorDevice(const std::string &name) { return makerOf(name) != nullptr || isInstalled(pluginOf(name)); }

Result<std::shared_ptr<TensorDevice>> makeTensorDevice(const std::string &name, GstElement *element) {
  TensorDeviceMaker maker = makerOf(name);
  if (maker == nullptr) {
    const std::string plugin = pluginOf(name);
    GstPlugin *loaded = gst_plugin_load_by_name(plugin.c_str()); // stays loaded
    const bool is_loaded = loaded != nullptr;
    gst_clear_object(&loaded);
    if (!is_loaded)
      return Error{"the plugin " + plugin + (isInstalled(plugin) ? " cannot be loaded" : " is not installed"), 0,
                   "Install it, and see what gst-inspect-1.0 " + plugin + " says"};
    maker = makerOf(name);
  }
  if (maker == nullptr)
    return Error{"the plugin " + pluginOf(name) + " has no device for fenceinfer", 0,
                 "Install it in the same version as the plugin zerocopy"};
  return maker(element);
}

} // namespace gstzc::infer
