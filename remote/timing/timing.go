// Package timing knows where the time of rounds goes. A role has one Recorder, which notes when each phase of a round begins. A summary of the last
// rounds goes to the listener once a second. A job with profile_steps also keeps every phase, and every run of a kernel, of its first rounds: the
// listener collects these traces when the roles end, and Write makes one file of them.
//
// Files in reading order: timing.go has the Recorder; summary.go makes a job.RoundTimes of the last rounds; trace.go makes a job.Trace of one role;
// chrome.go joins the traces of all roles on one clock; sampled.go keeps the last of those rounds that a listener traces.
//
// The phases of a trainer's round follow each other without gaps:
//
//	read --------> compute --------> send ----------> wait -----------> receive ----------> other
//	   the batch is   SendBarrier:      acknowledged,    the first byte of   all parameters    report, joining of slices;
//	   here           gradients final   and declared     parameters          are here          until the next round begins
//
// Gradients that are final early are sent while the step computes: send is only the part of sending that the trainer waits for.
//
// The phases of a pserver's round:
//
//	wait ------------> receive -----------> merge ------------> apply -----------> push
//	   the first          the last member      contributions      every block        until the last trainer has the parameters, or the first
//	   contribution       has declared         are one            has run            contribution of the next round arrives
package timing

import (
	"sync"
	"time"
)

// Phases of a trainer's round.
const (
	Read    Phase = iota // wait for the batch
	Compute              // run the program
	Send                 // wait until every server has the contribution
	Await                // declared: wait for the first byte of the parameters
	Receive              // wait for the rest of them, and for rows of tables that only servers have
	Other                // until the next round begins
)

// Phases of a pserver's round.
const (
	Idle   Phase = iota // no contribution has arrived
	Gather              // from the first contribution to the last declaration
	Merge               // make one value of the contributions
	Apply               // run the blocks
	Push                // send the parameters
)

// A Phase is a part of a round, by its place in the order.
type Phase int

// Trainer and PServer name the phases of the two roles, in their order.
var (
	Trainer = []string{"read", "compute", "send", "wait", "receive", "other"}
	PServer = []string{"wait", "receive", "merge", "apply", "push"}
	// Coordinator names the one phase that a coordinator notes of the rounds that its listener traces: a task, or a feed, for a trainer. Tasks for several trainers
	// are handed out at the same time.
	Coordinator = []string{"hand out"}
)

const (
	// Kept is how many rounds a summary covers.
	Kept = 100
	// maxPhases is how many phases a round may have.
	maxPhases = 6
)

// round is the times of one round. Phases follow each other from start on.
type round struct {
	number uint64
	start  time.Duration // since the epoch of the recorder
	took   [maxPhases]time.Duration
	last   int32 // rank that was the last to declare; -1: not known
}

// total is the time of all phases.
func (r *round) total() (sum time.Duration) {
	for _, d := range r.took {
		sum += d
	}
	return sum
}

// A Recorder notes the phases of the rounds of one process. Noting allocates nothing and reads the monotonic clock once. A Recorder is safe for
// concurrent use. A nil Recorder records nothing.
type Recorder struct {
	phases   []string
	epoch    time.Time
	from, to uint64 // rounds that are profiled: from <= number < to

	mu       sync.Mutex
	open     round // the round under way
	running  bool  // there is one
	phase    Phase
	aside    Phase             // that time counts for until Back, while phase stays; -1: none
	at       time.Duration     // since when time is not counted yet
	mark     time.Duration     // when the last phase ended, as Mark has said; 0: it has not
	over     map[string]uint32 // transports, by name; replaced as a whole
	ring     [Kept]round
	count    uint64 // rounds that have ended
	profiled []round
	sampled  sample
}

// New returns a Recorder for a role with these phases. It keeps all of the rounds from the given number on, up to profile of them, for a trace.
func New(phases []string, from uint64, profile int) *Recorder {
	return &Recorder{phases: phases, epoch: time.Now(), aside: -1, from: from, to: from + uint64(profile), profiled: make([]round, 0, profile)}
}

// Begin ends the round under way, if there is one, and begins another one in its first phase. If Mark was called in the last phase of the round under
// way, that round ended then.
func (r *Recorder) Begin(number uint64) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.now()
	if r.running {
		at = r.end(at)
	}
	r.open, r.running, r.phase, r.at, r.mark = round{number: number, start: at, last: -1}, true, 0, at, 0
	r.aside = -1
}

// Number says which round is under way, where Begin could not know that.
func (r *Recorder) Number(number uint64) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open.number = number
}

// Enter ends the phase under way and begins a later one. It does nothing if that phase has begun, or if no round is under way.
func (r *Recorder) Enter(p Phase) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.running || p <= r.phase {
		return
	}
	now := r.now()
	r.spend(now)
	r.phase, r.aside, r.mark = p, -1, 0
}

// Aside says that the time until Back counts for another phase, in the middle of the one under way. Enter ends it, too. It does nothing if no round is under way.
func (r *Recorder) Aside(p Phase) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running {
		r.spend(r.now())
		r.aside = p
	}
}

// Back ends what Aside has begun, if that is under way.
func (r *Recorder) Back() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running && r.aside >= 0 {
		r.spend(r.now())
		r.aside = -1
	}
}

// spend counts the time until now. r.mu is held.
func (r *Recorder) spend(now time.Duration) {
	p := r.phase
	if r.aside >= 0 {
		p = r.aside
	}
	r.open.took[p] += now - r.at
	r.at = now
}

// Mark says that the last phase has ended now, unless another Mark follows before the next Begin or End. In other phases it does nothing.
func (r *Recorder) Mark() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running && r.inLast() {
		r.mark = r.now()
	}
}

// Last notes which trainer was the last to declare the round under way.
func (r *Recorder) Last(rank int) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open.last = int32(rank)
}

// Over notes with how many peers the role exchanges slices over each transport. The map must not change any more.
func (r *Recorder) Over(transports map[string]uint32) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = transports
}

// End says that no round follows for now: the round under way counts if it is in its last phase, and is dropped otherwise.
func (r *Recorder) End() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running && r.inLast() {
		r.end(r.now())
	}
	r.running = false
}

// end enters the round under way, and returns when it ended.
func (r *Recorder) end(now time.Duration) time.Duration {
	if r.mark > 0 {
		now = r.mark
	}
	r.spend(now)
	r.ring[r.count%Kept] = r.open
	r.count++
	r.sampled.take(&r.open)
	if r.open.number >= r.from && r.open.number < r.to && len(r.profiled) < cap(r.profiled) { // a round may be trained twice
		r.profiled = append(r.profiled, r.open)
	}
	return now
}

func (r *Recorder) inLast() bool { return int(r.phase) == len(r.phases)-1 }

func (r *Recorder) now() time.Duration { return time.Since(r.epoch) }

// Count counts the rounds that have ended, and those that are kept for traces: it changes when there is something to tell.
func (r *Recorder) Count() uint64 {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count + r.sampled.count
}
