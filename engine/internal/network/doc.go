// Package network has what executes the network of a run: its program on a device.
//
//	perexample.Build ──▶ Compile: the largest microbatch that keeps the device busy and fits
//	                        │   (halved until the program and the data sets fit in memory)
//	                        ▼
//	Network ── Program, Executable         forward, norms, clipped sums, release
//	        ├─ Running                     means and variances of batch normalization, moved between lots
//	        └─ Frozen                      outputs of frozen first layers, computed once
//
// A microbatch that is chosen, and every error, follow from public numbers: the network, the declared shape
// of the data, the number of records that is stated, and the memory before private data were read. So
// what one record contains decides neither memory nor time limits.
//
// [DeviceOptions] find and open the device. [SignatureOf] describes the inputs and outputs of a network, which
// decide what it can be evaluated on. [Digests] identify what a network computes, so that a run is resumed
// with the same one.
package network
