// SPDX-License-Identifier: LGPL-2.1-or-later
// A stand-in for libnvcuvid.so.1 that knows no codec: GStreamer's plugin nvcodec registers nothing at all, also not
// cudaupload, unless the decoder's or the encoder's library can be loaded.
#define SOFTCUDA_NO_CODEC(name) \
  extern "C" __attribute__((visibility("default"))) int name() { return 801; /* CUDA_ERROR_NOT_SUPPORTED */ }

SOFTCUDA_NO_CODEC(cuvidCreateDecoder)
SOFTCUDA_NO_CODEC(cuvidCreateVideoParser)
SOFTCUDA_NO_CODEC(cuvidCtxLock)
SOFTCUDA_NO_CODEC(cuvidCtxLockCreate)
SOFTCUDA_NO_CODEC(cuvidCtxLockDestroy)
SOFTCUDA_NO_CODEC(cuvidCtxUnlock)
SOFTCUDA_NO_CODEC(cuvidDecodePicture)
SOFTCUDA_NO_CODEC(cuvidDestroyDecoder)
SOFTCUDA_NO_CODEC(cuvidDestroyVideoParser)
SOFTCUDA_NO_CODEC(cuvidGetDecoderCaps)
SOFTCUDA_NO_CODEC(cuvidMapVideoFrame)
SOFTCUDA_NO_CODEC(cuvidMapVideoFrame64)
SOFTCUDA_NO_CODEC(cuvidParseVideoData)
SOFTCUDA_NO_CODEC(cuvidReconfigureDecoder)
SOFTCUDA_NO_CODEC(cuvidUnmapVideoFrame)
SOFTCUDA_NO_CODEC(cuvidUnmapVideoFrame64)
