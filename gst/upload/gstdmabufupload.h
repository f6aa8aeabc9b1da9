// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gst/base/gstbasetransform.h>

G_BEGIN_DECLS

#define GST_TYPE_DMABUF_UPLOAD (gst_dmabuf_upload_get_type())
G_DECLARE_FINAL_TYPE(GstDmabufUpload, gst_dmabuf_upload, GST, DMABUF_UPLOAD, GstBaseTransform)

GST_ELEMENT_REGISTER_DECLARE(dmabufupload);

G_END_DECLS
