package web

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/view"
)

// When the hub asks the listener.
const (
	tick      = time.Second      // between two looks at all jobs
	awakeTime = 30 * time.Second // how long it goes on after somebody has asked
	rateTime  = 10 * time.Second // over which records a second are counted
	wholeTime = 10 * time.Second // between two questions for jobs that have ended, of which a listener looks at files
)

// maxAsked is how many questions about jobs are under way at a time.
const maxAsked = 8

// maxSeen is how many checkpoints of a job are remembered.
const maxSeen = 20

// A hub knows what pages show of all jobs of a listener. It looks at them while somebody asks, and sleeps otherwise. It is safe for concurrent use.
type hub struct {
	source Source
	log    *slog.Logger
	every  time.Duration // between two looks: tick
	wake   chan struct{} // holds a value when somebody asks and the hub may sleep

	mu      sync.Mutex
	jobs    map[string]*tracked
	order   []string      // of jobs, the oldest first
	whole   time.Time     // when all jobs were asked for last
	err     error         // of the last look
	looked  time.Time     // when it ended; zero: never
	asked   time.Time     // when somebody asked last
	changed chan struct{} // closed after the next look
}

// tracked is what is known of one job. hub.mu guards it.
type tracked struct {
	status     *job.JobStatus
	details    *rpc.JobDetails // nil: not asked for yet
	last       bool            // details are those after the end of the job
	steps      steps
	wanted     bool // somebody looks at this job, so that what it has trained is read also after its end
	following  bool // its steps are being read
	samples    []sample
	progressed time.Time               // when its steps were seen to change last
	seen       []*job.CheckpointStatus // the oldest first
}

// A sample is how many records a job had at a time.
type sample struct {
	at      time.Time
	records int64
}

func newHub(source Source, log *slog.Logger) *hub {
	return &hub{source: source, log: log, every: tick, wake: make(chan struct{}, 1), jobs: map[string]*tracked{}, changed: make(chan struct{})}
}

// run looks at the jobs until ctx ends.
func (h *hub) run(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	for {
		select {
		case <-h.wake:
		case <-ctx.Done():
			return
		}
		awake, sleep := context.WithCancel(ctx)
		every := time.NewTicker(h.every)
		for h.isAsked() && ctx.Err() == nil {
			h.look(awake, &group)
			select {
			case <-every.C:
			case <-h.wake:
			case <-ctx.Done():
			}
		}
		every.Stop()
		sleep()
		group.Wait() // no steps are read while nobody looks; they go on from where they were
	}
}

func (h *hub) isAsked() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Since(h.asked) < awakeTime
}

// ask keeps the hub awake, and returns when what it knows is of now, give or take twice the time between two looks. The error says why it is not.
func (h *hub) ask(ctx context.Context) error {
	ctx, cancel := awaited(ctx)
	defer cancel()
	for {
		h.mu.Lock()
		h.asked = time.Now()
		fresh, err, next := time.Since(h.looked) < 2*h.every, h.err, h.changed
		h.mu.Unlock()
		if fresh {
			return err
		}
		h.rouse()
		select {
		case <-next:
		case <-ctx.Done():
			return fault.E(fault.Unavailable, fault.At("web"), fault.Cause(context.Cause(ctx)))
		}
	}
}

// want says that somebody looks at one job, and returns when its details are known and its steps are read, or askTime has passed. It returns an error if there is no job of the name.
func (h *hub) want(ctx context.Context, id string) error {
	if err := h.ask(ctx); err != nil {
		return err
	}
	bounded, cancel := awaited(ctx)
	defer cancel()
	for first := true; ; first = false {
		h.mu.Lock()
		t, next := h.jobs[id], h.changed
		if t != nil {
			t.wanted = true
		}
		whole := t != nil && t.details != nil && (t.steps.all && t.last || !view.Ended(t.status) && t.steps.trained >= view.Steps(t.status))
		h.asked = time.Now()
		h.mu.Unlock()
		if t == nil {
			return unknownJob(id)
		}
		if whole {
			return nil
		}
		if first {
			h.rouse()
		}
		select {
		case <-next:
		case <-bounded.Done():
			return ctx.Err()
		}
	}
}

func (h *hub) rouse() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// look asks for all jobs, and for the details of those that run or are wanted.
func (h *hub) look(ctx context.Context, group *sync.WaitGroup) {
	bounded, cancel := awaited(ctx)
	defer cancel()
	list, err := h.source.Jobs(bounded, true)
	whole := err == nil && h.wantsAll(list, time.Now())
	if whole {
		list, err = h.source.Jobs(bounded, false)
	}
	var ids []string
	if err == nil {
		ids = h.enter(list, whole, time.Now())
	}
	limit := make(chan struct{}, maxAsked)
	var asking sync.WaitGroup
	for _, id := range ids {
		limit <- struct{}{}
		asking.Go(func() {
			defer func() { <-limit }()
			d, err := h.source.Known(bounded, id)
			if err == nil {
				h.enterDetails(id, d)
			} else if !errors.Is(err, fault.NotFound) && ctx.Err() == nil { // it may be forgotten meanwhile
				h.log.Warn("the pages do not know a job", "job", id, "error", err)
			}
		})
	}
	asking.Wait()
	h.follow(ctx, group)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err, h.looked = err, time.Now()
	close(h.changed)
	h.changed = make(chan struct{})
}

// wantsAll reports whether all jobs are to be asked for, and not only those that have not ended: some time has passed, or one has ended.
func (h *hub) wantsAll(live []*job.JobStatus, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	goes := 0
	for _, t := range h.jobs {
		if !view.Ended(t.status) {
			goes++
		}
	}
	for _, s := range live {
		if t := h.jobs[s.Job]; t != nil && !view.Ended(t.status) {
			goes--
		}
	}
	return goes > 0 || now.Sub(h.whole) >= wholeTime
}

// enter takes over a list of jobs: all, or those that have not ended. It returns those whose details are to be asked for.
func (h *hub) enter(list []*job.JobStatus, whole bool, now time.Time) (ids []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	there := map[string]bool{}
	if whole {
		h.order, h.whole = h.order[:0], now
	}
	for _, s := range list {
		t := h.jobs[s.Job]
		if t == nil || restarted(t.status, s) {
			t = &tracked{progressed: now}
			h.jobs[s.Job] = t
		}
		if t.status.GetSteps() != s.Steps || t.status.GetAttempt() != s.Attempt {
			t.progressed = now
		}
		t.status = s
		t.sample(now)
		there[s.Job] = true
		if whole || !slices.Contains(h.order, s.Job) {
			h.order = append(h.order, s.Job)
		}
	}
	for id, t := range h.jobs {
		switch {
		case whole && !there[id]:
			delete(h.jobs, id)
		case !view.Ended(t.status) || t.wanted && !t.last:
			ids = append(ids, id)
		}
	}
	return ids
}

// restarted reports whether a status is of another job than the last one of the same name: time does not run backwards.
func restarted(last, now *job.JobStatus) bool {
	return view.Ended(last) && (!view.Ended(now) || now.Seconds != last.Seconds)
}

// sample notes how many records the job has.
func (t *tracked) sample(now time.Time) {
	records := t.status.Records
	if n := len(t.samples); n > 0 && t.samples[n-1].records > records { // it has gone back
		t.samples = t.samples[:0]
	}
	t.samples = append(t.samples, sample{now, records})
	for len(t.samples) > 2 && now.Sub(t.samples[1].at) >= rateTime {
		t.samples = t.samples[1:]
	}
}

// rate is how many records a second the job trains: over the last seconds, or over its whole life where it has ended or was not looked at before.
func (t *tracked) rate() float64 {
	first, last := t.samples[0], t.samples[len(t.samples)-1]
	if seconds := last.at.Sub(first.at).Seconds(); seconds >= tick.Seconds()/2 && !view.Ended(t.status) {
		return float64(last.records-first.records) / seconds
	}
	if t.status.Seconds <= 0 {
		return 0
	}
	return float64(t.status.Records) / t.status.Seconds
}

func (h *hub) enterDetails(id string, d *rpc.JobDetails) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.jobs[id]
	if t == nil {
		return
	}
	t.details, t.last = d, view.Ended(d.Status)
	if k := d.Queues.GetCheckpoint(); k.GetName() != "" && (len(t.seen) == 0 || t.seen[len(t.seen)-1].Name != k.Name) {
		t.seen = append(t.seen, proto.CloneOf(k))
		t.seen = t.seen[max(0, len(t.seen)-maxSeen):]
	}
}

// follow reads the steps of jobs that run or are wanted, from where they were read before, until ctx ends.
func (h *hub) follow(ctx context.Context, group *sync.WaitGroup) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range h.order {
		t := h.jobs[id]
		if t.following || t.steps.all || view.Ended(t.status) && !t.wanted {
			continue
		}
		t.following = true
		from := t.steps.next
		group.Go(func() {
			err := h.source.WatchScalars(ctx, id, from, func(number uint64, events []*job.Event) error {
				h.mu.Lock()
				defer h.mu.Unlock()
				t.steps.take(number, events)
				return nil
			})
			h.mu.Lock()
			defer h.mu.Unlock()
			t.following, t.steps.all = false, err == nil
		})
	}
}

// known calls do with all jobs that are seen, the youngest first: those that run, then those that wait in the job queue, then those that have ended. hub.mu is held meanwhile.
func (h *hub) known(seen func(id string) bool, do func(t *tracked)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]*tracked, len(h.order))
	for i, id := range h.order {
		all[len(all)-1-i] = h.jobs[id]
	}
	slices.SortStableFunc(all, func(a, b *tracked) int { return cmp.Compare(order(a), order(b)) })
	for _, t := range all {
		if seen(t.status.Job) {
			do(t)
		}
	}
}

func order(t *tracked) int {
	switch {
	case view.Ended(t.status):
		return 2
	case t.status.State == job.State_WAITING:
		return 1
	}
	return 0
}

// of calls do with one job. hub.mu is held meanwhile. It reports whether there is such a job.
func (h *hub) of(id string, do func(t *tracked)) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.jobs[id]
	if t != nil {
		do(t)
	}
	return t != nil
}

// next returns a channel that is closed after the next look, and keeps the hub awake.
func (h *hub) next() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = time.Now()
	return h.changed
}
