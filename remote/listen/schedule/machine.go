// Package schedule decides which of the jobs of a listener run, and how many trainers elastic ones have, so that they share the cores and the memory of its machine
// and its nodes.
//
// A Machine is pure: it has no clock and starts nothing. The caller tells it what happens (Step), carries out the effects, and sends Tick at Next.
//
//	machine.go   jobs, events, effects; who comes next
//	share.go     what owners have used
//	place.go     which nodes have room
//	elastic.go   trainers that elastic jobs take and give back
//	relieve.go   trainers that they give back where a node has less than before
//	suspend.go   jobs that let others run before they go on
//
// # The line
//
// A job that does not fit waits. Jobs that wait stand in the job queue: by priority, then by what their owners have used of late, the least first, then in the order in which
// they came. What an owner has used are cores times seconds. It halves every Policy.HalfLife.
//
// A job starts whole or not at all: there must be room for all its servers and for the fewest trainers that it may have. A job that fits may start before one that
// stands in front of it and does not fit. How long jobs take is not known, so this may delay the one in front. It is done for Policy.PassTime at most: after that the
// job in front is overdue, stands before all others of its priority, and nobody passes it.
//
// # Elastic jobs
//
// An elastic job starts with the fewest trainers. When nobody waits, it gets more, as long as there is room on nodes that count cores; on others when its user asks. When the first job in line does not fit, and would if
// elastic jobs gave trainers back, they do: those of lower priority first, then of the owner that has used the most. A trainer that is given back ends its round before
// (Has), and until then nobody passes the job that waits for it.
//
// # Suspended jobs
//
// When a job does not fit, also if trainers were given back, jobs of a lower priority are suspended for it (Suspend): those of the lowest priority first, then of the
// owner that has used the most. The caller lets them make a checkpoint, ends their roles, and says so (Left). They stand in the job queue again, and start like others. A job that has started or gone on is
// not suspended for Policy.Turn, so that it gets further each time. A user may suspend a job, too (Hold), until somebody releases it.
//
// # Example
//
// A machine of 4 cores. Each trainer takes one.
//
//	0s    Submitted a, 2 to 4 trainers   Start a with 2.
//	10s   Tick                           Nobody waits: Scale a to 4.
//	20s   Submitted b, 3 trainers        It needs 3 cores, and 2 would be free at most: it waits.
//	21s   Submitted c, 2 trainers        c fits if a gives back 2. But b comes first, and cannot be helped. So Scale a to 2.
//	25s   Has a, 2 trainers              Start c. It has passed b.
//	90s   Ended a                        2 cores are free: b waits.
//	95s   Ended c                        Start b.
package schedule

import (
	"cmp"
	"slices"
	"time"

	"github.com/edl-go/edl/fault"
)

// Resources are what a role takes, or a machine has.
type Resources struct {
	Cores  int64 // thousandths of a core
	Memory int64 // bytes
}

// times is n of them.
func (r Resources) times(n int) Resources { return Resources{r.Cores * int64(n), r.Memory * int64(n)} }

func (r Resources) plus(o Resources) Resources {
	return Resources{r.Cores + o.Cores, r.Memory + o.Memory}
}

func (r Resources) minus(o Resources) Resources {
	return Resources{r.Cores - o.Cores, r.Memory - o.Memory}
}

// Bounds of what one role may take, and of how many roles a job may have of a kind. Sums of them do not overflow.
const (
	MaxCores  = 1 << 30
	MaxMemory = 1 << 45
	maxRoles  = 1 << 13
)

// A Job is what is known of a job that comes.
type Job struct {
	ID       string
	Owner    string
	Priority int
	Servers  []Resources // one for each server of the job
	Trainer  Resources   // of each trainer
	Least    int         // trainers with which it starts
	Most     int         // that it may have
	Yields   bool        // it can be suspended for a job of a higher priority
}

// A Policy is how jobs share.
type Policy struct {
	HalfLife    time.Duration // of what owners have used
	PassTime    time.Duration // for which others pass a job that does not fit
	Calm        time.Duration // after which elastic jobs get more trainers: since the last start, and since the last trainer was given back
	Turn        time.Duration // for which a job runs at least before it is suspended for another one
	MostWaiting int           // jobs that wait, in all
	MostOwned   int           // of one owner
}

// DefaultPolicy is that of a listener.
func DefaultPolicy() Policy {
	return Policy{HalfLife: time.Hour, PassTime: 2 * time.Minute, Calm: 10 * time.Second, Turn: 5 * time.Minute, MostWaiting: 1000, MostOwned: 200}
}

// An Event is what happens: one of the types below.
type Event interface {
	apply(m *Machine, out *Effects) error
}

type (
	// Submitted brings a job. It is refused when it can never fit, and when too many wait.
	Submitted struct{ Job }
	// Waited brings a job that has waited at an earlier listener, or has gone on waiting: nothing refuses it.
	Waited struct {
		Job
		Suspension
	}
	// Runs brings a job that runs already, with so many trainers. It has what it takes, whether there is room or not.
	Runs struct {
		Job
		Trainers int
	}
	// Has says how many trainers of a job have not ended. Those beyond the number that the job is to have are given back when they end.
	Has struct {
		ID       string
		Trainers int
	}
	// Asked says that the user wants a job to have so many trainers at most.
	Asked struct {
		ID   string
		Most int
	}
	// Left says that a job that was to be suspended has: its roles have ended.
	Left struct{ ID string }
	// Stays says that a job that was to be suspended cannot be now. It is not asked again for Policy.Turn.
	Stays struct{ ID string }
	// Hold suspends a job until it is released. A job that waits does not start meanwhile.
	Hold struct{ ID string }
	// Release lets a job that is held stand in the job queue.
	Release struct{ ID string }
	// Ended says that a job has ended, or does not wait any more.
	Ended struct{ ID string }
	// Nodes says which nodes there are. What jobs have on one that is not there stays theirs.
	Nodes struct{ List []Node }
	// Tick says that time has passed: see Machine.Next.
	Tick struct{}
)

// Effects are what the caller does after an event, in this order.
type Effects struct {
	Start   []Start
	Scale   []Scale
	Suspend []string // jobs that are to make a checkpoint and to end their roles. Left or Stays answers
}

// A Start starts a job.
type Start struct {
	ID       string
	Trainers int
	Servers  []string // the node of each server
	Nodes    []string // the node of each trainer
}

// A Scale changes how many trainers a job that runs is to have.
type Scale struct {
	ID       string
	Trainers int
	Nodes    []string // the node of each trainer
}

// An entry is a job that the machine knows.
type entry struct {
	Job
	number  uint64 // in the order in which jobs came
	runs    bool
	since   time.Duration // when it came, or started
	asked   bool          // the user has said how many trainers it may have
	passed  time.Duration // when another job passed it first while it was the first of the queue; 0: none has
	want    int           // trainers that it is to have
	servers []*node       // where they are
	held    []*node       // where its trainers are: those that it is to have, and those that have not ended yet
	pause   Suspension
	leaving bool // it runs, and is to be suspended
}

// takes is what the job has now.
func (e *entry) takes() (sum Resources) {
	if !e.runs {
		return sum
	}
	for _, s := range e.Servers {
		sum = sum.plus(s)
	}
	return sum.plus(e.Trainer.times(len(e.held)))
}

// A Machine has the jobs of one listener. Its times are those of one clock of its caller, which never goes back. It is not for concurrent use.
type Machine struct {
	policy Policy
	now    time.Duration
	nodes  []*node
	jobs   map[string]*entry
	number uint64
	uses   map[string]*use
	calm   time.Duration // since then no job has started and no trainer was given back
}

// New returns a machine without jobs.
func New(p Policy, nodes ...Node) *Machine {
	m := &Machine{policy: p, jobs: map[string]*entry{}, uses: map[string]*use{}}
	m.setNodes(nodes)
	return m
}

// Step lets an event happen at now. It refuses what cannot be, and changes nothing then.
func (m *Machine) Step(now time.Duration, e Event) (out Effects, err error) {
	m.advance(max(now, m.now))
	if err := e.apply(m, &out); err != nil {
		return Effects{}, err
	}
	m.settle(&out)
	return out, nil
}

func (e Submitted) apply(m *Machine, _ *Effects) error {
	if err := m.check(&e.Job); err != nil {
		return err
	}
	if err := m.fitsAtAll(&e.Job); err != nil {
		return err
	}
	return m.add(e.Job, true)
}

func (e Waited) apply(m *Machine, _ *Effects) error {
	if err := m.check(&e.Job); err != nil {
		return err
	}
	if err := m.add(e.Job, false); err != nil {
		return err
	}
	m.jobs[e.ID].pause = e.Suspension
	return nil
}

func (e Runs) apply(m *Machine, _ *Effects) error {
	if err := m.check(&e.Job); err != nil {
		return err
	}
	if err := m.add(e.Job, false); err != nil {
		return err
	}
	x := m.jobs[e.ID]
	x.want = min(max(e.Trainers, 1), maxRoles)
	free := m.free()
	if len(free) == 0 { // they are not known yet
		m.nodes = append(m.nodes, &node{gone: true})
		free = m.free()
	}
	for _, s := range x.Servers {
		x.servers = append(x.servers, free.orAny(s))
	}
	for range x.want {
		x.held = append(x.held, free.orAny(x.Trainer))
	}
	m.begin(x)
	return nil
}

func (e Has) apply(m *Machine, _ *Effects) error {
	x := m.jobs[e.ID]
	if x == nil || !x.runs {
		return nil // it has ended since
	}
	if left := max(x.want, e.Trainers); left < len(x.held) {
		for _, n := range x.held[left:] {
			n.used = n.used.minus(x.Trainer)
		}
		x.held, m.calm = x.held[:left], m.now
	}
	return nil
}

func (e Asked) apply(m *Machine, out *Effects) error {
	x := m.jobs[e.ID]
	if x == nil {
		return fault.E(fault.NotFound, fault.Got("job "+fault.Quote(e.ID)), fault.Want("a job that waits or runs"))
	}
	if e.Most < 1 || e.Most > maxRoles {
		return fault.E(fault.InvalidArgument, fault.At("job "+e.ID), fault.Gotf("%d trainers", e.Most), fault.Wantf("1 to %d", maxRoles))
	}
	x.asked, x.Most, x.Least, m.calm = true, e.Most, min(x.Least, e.Most), min(m.calm, m.now-m.policy.Calm) // who asks does not wait for calm
	if x.runs && x.want > x.Most {
		m.scale(x, x.Most, out)
	}
	return nil
}

func (e Ended) apply(m *Machine, _ *Effects) error {
	x := m.jobs[e.ID]
	if x == nil {
		return nil
	}
	if x.runs {
		leave(x)
	}
	delete(m.jobs, e.ID)
	forgetNodes(m)
	return nil
}

func (e Nodes) apply(m *Machine, _ *Effects) error {
	m.setNodes(e.List)
	return nil
}

func (Tick) apply(*Machine, *Effects) error { return nil }

// check refuses a job that no job can be.
func (m *Machine) check(j *Job) error {
	wrong := func(r Resources) bool {
		return r.Cores < 0 || r.Memory < 0 || r.Cores > MaxCores || r.Memory > MaxMemory
	}
	switch {
	case m.jobs[j.ID] != nil:
		return fault.E(fault.InvalidArgument, fault.At("job "+j.ID), fault.Got("a job that waits or runs"), fault.Want("another name"))
	case j.Least < 1 || j.Most < j.Least || j.Most > maxRoles || len(j.Servers) > maxRoles:
		return fault.E(fault.InvalidArgument, fault.At("job "+j.ID), fault.Gotf("%d to %d trainers, and %d servers", j.Least, j.Most, len(j.Servers)), fault.Wantf("1 to %d", maxRoles))
	case wrong(j.Trainer) || slices.ContainsFunc(j.Servers, wrong):
		return fault.E(fault.InvalidArgument, fault.At("job "+j.ID), fault.Gotf("a trainer of %s, or a server out of bounds", j.Trainer), fault.Wantf("at most %s", Resources{MaxCores, MaxMemory}))
	}
	return nil
}

// add lets a job wait.
func (m *Machine) add(j Job, bounded bool) error {
	all, owned := 0, 0
	for _, x := range m.jobs {
		if !x.runs {
			all++
			if x.Owner == j.Owner {
				owned++
			}
		}
	}
	if bounded && (all >= m.policy.MostWaiting || owned >= m.policy.MostOwned) {
		return fault.E(fault.TooLarge, fault.At("job "+j.ID), fault.Gotf("%d jobs that wait, %d of them of the same owner", all, owned),
			fault.Wantf("fewer than %d, and fewer than %d of one owner", m.policy.MostWaiting, m.policy.MostOwned), fault.Hint("submit it again when some of them have started"))
	}
	m.number++
	m.jobs[j.ID] = &entry{Job: j, number: m.number, since: m.now}
	return nil
}

// begin lets a job run on the nodes that were chosen for it.
func (m *Machine) begin(x *entry) {
	for i, n := range x.servers {
		n.used = n.used.plus(x.Servers[i])
	}
	for _, n := range x.held {
		n.used = n.used.plus(x.Trainer)
	}
	x.runs, x.since, x.pause, m.calm = true, m.now, Suspension{}, m.now
}

// leave gives back what a job has that runs.
func leave(x *entry) {
	for i, n := range x.servers {
		n.used = n.used.minus(x.Servers[i])
	}
	for _, n := range x.held {
		n.used = n.used.minus(x.Trainer)
	}
	x.servers, x.held, x.runs, x.leaving = nil, nil, false, false
}

// settle starts what can start, and moves trainers of elastic jobs.
func (m *Machine) settle(out *Effects) {
	relieve(m, out)
	for m.startOne(out) {
	}
	if !waits(m) {
		m.grow(out)
	}
}

// startOne starts the first job of the queue that fits and may start.
func (m *Machine) startOne(out *Effects) bool {
	var first *entry // that does not fit
	for _, x := range m.line() {
		servers, trainers, ok := m.free().place(&x.Job, x.Least)
		if ok {
			if first != nil && first.passed == 0 {
				first.passed = max(m.now, 1)
			}
			x.servers, x.held, x.want = servers, trainers, x.Least
			m.begin(x)
			out.Start = append(out.Start, Start{x.ID, x.want, namesOf(servers), namesOf(trainers)})
			return true
		}
		if m.giveBack(x, out) || suspendFor(m, x, out) || m.overdue(x) {
			return false
		}
		if first == nil {
			first = x
		}
	}
	return false
}

// overdue reports whether nobody passes a job any more.
func (m *Machine) overdue(x *entry) bool { return x.passed > 0 && m.now-x.passed >= m.policy.PassTime }

// line returns the jobs that wait, the next one first.
func (m *Machine) line() []*entry {
	var line []*entry
	for _, x := range m.jobs {
		if !x.runs && !x.pause.Held {
			line = append(line, x)
		}
	}
	shares := m.shares()
	late := func(x *entry) int {
		if m.overdue(x) {
			return 0
		}
		return 1
	}
	slices.SortFunc(line, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(late(a), late(b)), cmp.Compare(shares[a.Owner], shares[b.Owner]), cmp.Compare(a.number, b.number))
	})
	return line
}

// Next returns when a Tick has something to do. ok is false when only another event can change anything.
func (m *Machine) Next() (at time.Duration, ok bool) {
	sooner := func(t time.Duration) {
		if t > m.now && (!ok || t < at) {
			at, ok = t, true
		}
	}
	for _, x := range m.jobs {
		if !x.runs && x.passed > 0 {
			sooner(x.passed + m.policy.PassTime)
		}
	}
	if first := lastTurn(m); first > 0 {
		sooner(first)
	}
	if !waits(m) && slices.ContainsFunc(running(m), func(x *entry) bool { return x.want < x.Most }) {
		sooner(m.calm + m.policy.Calm)
	}
	return at, ok
}

// waits reports whether any job stands in the job queue.
func waits(m *Machine) bool {
	for _, x := range m.jobs {
		if !x.runs && !x.pause.Held {
			return true
		}
	}
	return false
}

// running returns the jobs that run, in the order in which they came.
func running(m *Machine) []*entry {
	var list []*entry
	for _, x := range m.jobs {
		if x.runs {
			list = append(list, x)
		}
	}
	slices.SortFunc(list, func(a, b *entry) int { return cmp.Compare(a.number, b.number) })
	return list
}
