// Package comm registers the ops of role programs. A trainer has send, send_barrier, recv, fetch_barrier and split_byref. A pserver has
// listen_and_serv and exchange_partials. Where a job compresses what it sends, both have compress, and a trainer has decompress or compress_topk.
//
// The ops say what moves and when. The ops.Comm and ops.Server of the environment move it, and without them the ops do not bind. A program names
// servers by index, such as "pserver:0" (see Address). The job knows where they are.
//
// In a step, a trainer sends each slice of a gradient as soon as it exists. The send barrier declares its contribution complete. Then the trainer
// receives each slice of a parameter, and all of them are there after the fetch barrier. Send and recv return before the bytes have moved. The
// order of these ops matters, so the transpiler ties them together with control variables, which have no elements.
//
// A pserver program is one listen_and_serv op in block 0 and the blocks that it runs in every round. ServiceOf reads the op.
//
// Files: trainer.go (the trainer's ops), service.go (listen_and_serv, its Service, exchange_partials), split.go,
// compress.go, topk.go.
package comm
