// Package comm registers the ops that role programs consist of beside the user's own: a trainer's send, send_barrier, recv,
// fetch_barrier and split_byref, and a pserver's listen_and_serv and exchange_partials.
//
// The ops say what moves and when; how it moves is the business of the ops.Comm and ops.Server in the environment, without which none
// of them binds. A program names servers by index, as in "pserver:0" (see Address); the job knows where they are.
//
// A step of a trainer sends each slice of a gradient as soon as it exists, and declares its contribution complete at the
// send barrier; it receives each slice of a parameter, all of which are there after the fetch barrier. Send and recv return before
// the bytes have moved. The order of the ops is part of the program's meaning, so the transpiler ties them together
// with control variables, which have no elements.
//
// A pserver's program is one listen_and_serv op in block 0 and the blocks that it runs every round; ServiceOf reads what it says.
package comm
