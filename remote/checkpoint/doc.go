// Package checkpoint keeps the state of jobs in a folder or a bucket, so that it outlives its pservers. It owns the format, the stores, and the rule by
// which a checkpoint is complete. When one is made, and who goes on from it, others decide.
//
// # Files in reading order
//
//	manifest.go  the manifest: what a checkpoint consists of, and its encoding
//	store.go     objects in a folder, each there whole or not at all
//	bucket.go    the same in a bucket
//	summing.go   the sums of shards, by parts, on several cores
//	write.go     shards, the manifest, and the removal of what is old, which keeps bases
//	read.go      checkpoints are listed, checked, read, and exported to a directory
//	follow.go    the newest checkpoint while a job writes further ones, and what has changed in it
//
// # A checkpoint
//
// It is the state at a cut: all rounds below one are applied on every pserver, and no other. Its objects have its name and a slash before their own:
//
//	RUN.00000000000000001000.TOKEN/shard-0     written by pserver 0: the elements of its slices
//	RUN.00000000000000001000.TOKEN/shard-1     written by pserver 1, at the same time
//	RUN.00000000000000001000.TOKEN/manifest    written last: the shards with their lengths and sums, and the place in the data
//
// What holds:
//
//   - A checkpoint that has a manifest is complete: whoever crashes meanwhile, the manifest is published after all shards are durable. What has none is no
//     checkpoint, and is removed with the next one.
//   - An object never changes. The token is drawn at random, so two writers never write the same object.
//   - A manifest speaks of variables of the user's program and their rows, never of servers. So a job with any number of pservers goes on from it.
//   - A shard may have only changes, to shards of an earlier checkpoint of the run, which the manifest names too. Those have no changes themselves. Nobody
//     removes a checkpoint that a complete one has shards of.
//   - The manifest is removed first, so a checkpoint that is being removed is no longer listed.
//
// A reader trusts nothing: the manifest has a sum of its own, its lengths are checked before memory is made, and a shard is checked against its sum while
// it is read.
package checkpoint
