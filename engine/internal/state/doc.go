// Package state keeps what a run needs to continue: checkpoints, the fingerprint of the settings that
// must be equal, and the history of its ledger.
//
// A checkpoint is public once the ledger contains its lots: it has released values and functions of
// them, and no key.
//
//	lot released ──▶ Writer.SaveIfDue ──▶ folder/unfinished ──▶ folder/lot-000000000042.checkpoint
//	                   │ SyncState,          written in the        named when it is on disk;
//	                   │ bounds, ledger      background            its predecessor is kept
//	                   ▼ head
//	next release waits in WaitUntilRead
//
// [Newest] opens the newest checkpoint that is not damaged. The ledger must contain the line that was
// its last when the checkpoint was written: see [ReadHistory].
package state
