// Package dataplane moves the gradients and parameters of steps between trainers and pservers. The control plane, which is gRPC, opens a
// connection here for each pair of a trainer and a server in a generation. Then each round is a few frames, which carry no names.
//
// The package owns frames, connections and carriers. It does not know what a round is: package pserver decides what counts, and package trainer what is
// sent. A contribution that comes over gRPC and one that comes over a connection of this package are the same to both.
//
// # Files in reading order
//
//	head.go    the head of a frame, and its limits
//	table.go   slices, which a connection knows by number, and how far each has arrived
//	conn.go    a connection: its limits and its end
//	write.go   frames are written: several slices in one gather write
//	read.go    frames are read: slices into place
//	accept.go  the end of a server: who may connect
//	dial.go    the end of a trainer, and the choice of a carrier
//	tune.go, tune_linux.go, tune_other.go  what is asked of TCP: buffers, and the end of a connection that is silent
//	shared_linux.go, shared_other.go  unix sockets, and memory that both ends share
//
// # A generation
//
// The control plane fixes what a connection is about: the job, the generation, the rank, and a Table of what the trainer sends and receives, with types
// and dims. Its answer has the addresses of the server and a token. Whoever shows the token speaks for that rank in that generation.
//
//	trainer                                  pserver
//	OpenData (gRPC): identity, names   --->  checks the job and the names
//	                                   <---  token, addresses, types and dims
//	connect; hello: version, token     --->  one connection for a token; an older one of the rank is closed
//	                                   <---  Welcome, or Fault
//
// # A round
//
//	trainer                                  pserver
//	Data: slices, as they are computed --->  receives each into a buffer of its own
//	                                   <---  Ack: the contribution is complete here
//	all servers have acknowledged
//	Declare: rows, records             --->  the round may commit from here on
//	                                         all members have declared: apply
//	                                   <---  Params: the slices of the next version; or Ack, where the trainer receives nothing
//
// What holds:
//
//   - Data and Declare stay two messages, because no contribution may be declared anywhere before it is everywhere. In a job with one server a trainer
//     sends both without waiting between them.
//   - Gradients must not change until Ack has come: a connection that breaks is opened again and they are sent again. The receiver throws away what it
//     has already, and acknowledges it.
//   - Params repeat as often as Declare does. So after Ack, a broken connection costs a Declare and a Params.
//   - A frame is checked before anything of it counts: the head by its own checksum, lengths against the table, the body by its checksum. A receiver
//     makes no memory of a length that a peer has chosen, but for Declare and Fault, which are bounded.
//   - A trainer checks what a server says of its slices: their bytes against type and dims, and every later connection against the first.
//   - Fault ends a connection. Its body is a job.Failure with the kind of the error, as gRPC has it in its status.
//
// # Get
//
// A trainer asks for parameters where they are not pushed: before its first step, and in each step of an async job. Frames arrive in order, so a Get
// behind Data asks for parameters to which that contribution is applied.
//
//	trainer                                  pserver
//	Get: round                         --->  waits until this round is applied
//	                                   <---  Params of that round
//	Get with AnyVersion                --->
//	                                   <---  Params as they are now
//
//	a step of an async job:
//	Data: slices, as they are computed --->  queues each for its update; reads no further while the queue is full
//	Get                                --->  waits until all contributions of this trainer are applied
//	                                   <---  Params: the contribution was complete, too; or Ack after Data, where the trainer receives nothing
//	Get with Confirm                   --->  waits as well: the trainer pushes in this step and pulls in a later one
//	                                   <---  Ack
//	all servers have answered
//	Declare, to the server of the ledger ->  the ledger has the step
//	                                   <---  Ack; only then the trainer sends Data of its next step
//
// # Carriers
//
// Frames travel over TCP, or between processes of one host over a unix socket. There both ends may also share memory: then the bytes of slices lie in
// it, each slice at a place that the layout gives, and the frames carry only the lists of parts. The
// kernel copies nothing. A contribution stays in the memory until its round is applied (Conn.Lent); parameters are copied in and out.
// The memory needs no locks and no ring, because the frames already say who may touch what: a trainer writes its slices of round r+1 when it has
// received the parameters of r+1, and then the server has applied round r; the server writes parameters when the trainer has declared, or has asked, and
// then the trainer has taken those before. A server that ends a connection copies what it still needs before it frees the memory. In an async job, where
// slices wait in queues, the server copies them before it answers.
//
// Of a slice that holds rows of a table, few are in use. It has room for all of them, and memory for a few: who writes more rows makes memory for them first.
//
// A peer that lies or dies can neither block nor corrupt. The server makes the memory and seals its size, so no access can fail. Lists are in frames, which
// are checked after they were copied. What the peer writes into the memory is values and nothing else: they go into a tensor of its own
// contribution. Only a process of the same user is admitted.
//
// # Silence
//
// A connection over TCP may be lost without a word, as when a firewall forgets it: both processes are well, and both wait. So the kernel of each end probes
// it when nothing is under way, and ends it when the peer's machine has not answered for some seconds (Dialer.Silence, Acceptor.Silence). A process that
// is only paused answers: its kernel does. The trainer then opens another connection, as for every other end.
//
// # The head
//
//	 0  "EDLd"   4  kind   5  flags   6  zero      8  generation
//	16  round   24  zero  28  rank   32  zero (12 bytes)       44  parts
//	48  length of the body            56  crc32c of the body    60  crc32c of the bytes before
//
// All numbers are little-endian. The body of Data and Params begins with a list of parts: the number of the slice (4 bytes), the length (4), and the
// offset in the slice (8). Bit 31 of the number marks the last part of the slice, because of rows of a table only those in use travel. The bytes of the parts follow in the same order. The parts of a slice come in order, without gaps; a slice that is larger than
// FrameBytes needs several frames.
package dataplane
