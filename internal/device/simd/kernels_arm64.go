//go:build !noasm

package simd

// assembly lists the implementations that this processor can run: every 64-bit processor
// has NEON. Where there is no NEON kernel, the pure-Go function remains.
func assembly() []*kernels {
	neon := pureGo
	neon.name = "neon"
	neon.mr, neon.nr, neon.exactRead = 6, 16, false
	neon.tileRows, neon.tileCols = tileRowsNEON, tileColsNEON
	neon.packRows, neon.transpose8 = packRowsNEON, transpose8NEON
	neon.widenBFloat16, neon.widenFloat16 = widenBFloat16NEON, widenFloat16NEON
	neon.add, neon.mul, neon.scale, neon.axpy = addNEON, mulNEON, scaleNEON, axpyNEON
	neon.relu, neon.reluGrad = reluNEON, reluGradNEON
	neon.exp = expNEON
	neon.tanh, neon.tanhGrad = tanhNEON, tanhGradNEON
	neon.sigmoid, neon.sigmoidGrad = sigmoidNEON, sigmoidGradNEON
	neon.gelu, neon.geluGrad = geluNEON, geluGradNEON
	neon.softmaxGrad = softmaxGradNEON
	neon.normalize, neon.normalizeGrad, neon.deviations = normalizeNEON, normalizeGradNEON, deviationsNEON
	neon.sumRows, neon.addToRows = sumRowsNEON, addToRowsNEON
	neon.lstmStep, neon.lstmSignals = lstmStepNEON, lstmSignalsNEON
	neon.dot, neon.sum, neon.sumSquares = dotNEON, sumNEON, sumSquaresNEON
	neon.maximum, neon.colSums = maximumNEON, colSumsNEON
	neon.copyTaps = [2]copyTapFunc{copyTap1NEON, copyTap2NEON}
	neon.maxPoolRows = [2]maxPoolRowsFunc{maxPoolRows1NEON, maxPoolRows2NEON}
	neon.unfold, neon.sumTaps, neon.sumTaps2 = unfoldNEON, sumTapsNEON, sumTaps2NEON
	neon.fold, neon.maxTaps, neon.addToMaxTaps = foldNEON, maxTapsNEON, addToMaxTapsNEON
	neon.winograd = [2]winogradKernels{
		{winogradFilters3NEON, winogradImage3NEON, winogradSignal3NEON, winogradResult3NEON, winogradGradients3NEON},
		{winogradFilters5NEON, winogradImage5NEON, winogradSignal5NEON, winogradResult5NEON, winogradGradients5NEON},
	}
	neon.fmaPeak = fmaPeakNEON
	return []*kernels{&neon}
}
