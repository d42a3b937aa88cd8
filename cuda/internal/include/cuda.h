/* The toolkit's cuda.h, with the prototypes of CUDA 12 that gorgonia.org/cu was
   written for. CUDA 13 maps these names to newer versions with other arguments;
   the driver still exports the older ones. This folder stands on the include
   path before the toolkit's. */
#ifndef DPTRAIN_CUDA_H
#define DPTRAIN_CUDA_H

#include_next <cuda.h>

#if CUDA_VERSION >= 13000
#undef cuCtxCreate
#undef cuEventElapsedTime
#undef cuGraphAddDependencies
#undef cuGraphGetEdges
#undef cuGraphNodeGetDependencies
#undef cuGraphNodeGetDependentNodes
#undef cuGraphRemoveDependencies
#undef cuMemAdvise
#undef cuMemPrefetchAsync

#define cuCtxCreate cuCtxCreate_v2

CUresult CUDAAPI cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device);
CUresult CUDAAPI cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end);
CUresult CUDAAPI cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from,
	const CUgraphNode *to, size_t count);
CUresult CUDAAPI cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count);
CUresult CUDAAPI cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes, size_t *count);
CUresult CUDAAPI cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes, size_t *count);
CUresult CUDAAPI cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from,
	const CUgraphNode *to, size_t count);
CUresult CUDAAPI cuMemAdvise(CUdeviceptr memory, size_t bytes, CUmem_advise advice, CUdevice device);
CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr memory, size_t bytes, CUdevice device, CUstream stream);
#endif

#endif
