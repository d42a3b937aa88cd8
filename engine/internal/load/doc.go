// Package load brings the records of a lot into the memory of an executable. It is the only part of
// the engine that reads private data.
//
//	data.Set ──▶ Index: which rows are a record, which are blank, what they weigh
//	               │
//	records of     ▼
//	a microbatch ─▶ Loader.Load ──▶ columns      of Records·rows examples, padded with zeros
//	                  │             weights      of examples within their record
//	                  │             mask seeds   of dropout, for each view of each example
//	                  │             seeds        of the rounding of each record
//	                  ▼
//	                Augmenter: each view of an example is transformed in place
//
// Random words come from the run's cryptographic generator. Word k of a lot belongs to the k-th record,
// example or view, so the words of one record do not depend on the other records.
//
// [Index.Divide] divides a set into records to train on and records that are held out.
package load
