// Package tracing sends traces of rounds to an OpenTelemetry collector: one trace for each round that is chosen, with a span for each role and for each phase of it.
//
// The listener chooses: each N-th round, by its number, so all roles choose the same ones and no message of a round carries anything for it. Roles tell the listener of
// these rounds with what they tell of their times anyway, once a second (package timing), and the listener's process makes spans of that and sends them. So the credentials
// of the collector stay with the listener, and roles speak to nobody else.
//
// The spans are made after the fact, with ids that follow from what they are of. The tracers of OpenTelemetry's SDK make ids by chance and pass them on in a context, which
// fits neither; so the messages of OTLP are filled in here, and sent over HTTP.
//
// Files in reading order: tracing.go asks the listener; round.go gathers the spans of a round; export.go sends them.
package tracing

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote"
)

// Source is what a listener tells; Of makes one.
type Source interface {
	// Jobs returns the jobs that the listener remembers; with live, only those that have not ended.
	Jobs(ctx context.Context, live bool) ([]*job.JobStatus, error)
	// Sampled returns what is known of a job, with the rounds that its roles have told of.
	Sampled(ctx context.Context, id string) (*rpc.JobDetails, error)
}

// Of returns what the listener of a client tells.
func Of(c *remote.Client) Source { return source{c} }

type source struct{ *remote.Client }

func (s source) Jobs(ctx context.Context, live bool) ([]*job.JobStatus, error) {
	var f remote.JobFilter
	if live {
		f.States = []job.State{job.State_PENDING, job.State_STARTING, job.State_RUNNING}
	}
	return remote.FindJobs(ctx, s.Client, f)
}

func (s source) Sampled(ctx context.Context, id string) (*rpc.JobDetails, error) {
	return remote.Sampled(ctx, s.Client, id)
}

// Config is what a Tracer works with.
type Config struct {
	Source    Source
	Collector Collector
	Version   string       // of edl
	Log       *slog.Logger // nil: none
}

// When the listener is asked.
const (
	tick     = time.Second // between two looks at the jobs that run
	wholeRun = 10          // after so many of them all jobs are looked at: one may have begun and ended in between
	askTime  = 10 * time.Second
	lastTime = 5 * time.Second // for what is left when the tracer ends
)

// A Tracer makes traces of the rounds of all jobs of a listener.
type Tracer struct {
	cfg    Config
	export *exporter
	times  *prometheus.HistogramVec
	began  time.Time
	jobs   map[string]*traced // that are looked at, by name
}

// New returns a tracer. It does nothing until Run.
func New(cfg Config) *Tracer {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	times := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "edl_traced_round_seconds",
		Help: "How long the rounds of a job took that were traced, from the first role that began to the last one that ended.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 20)}, []string{"job"})
	return &Tracer{cfg: cfg, export: newExporter(cfg), times: times, began: time.Now(), jobs: map[string]*traced{}}
}

// Metrics are those of the traces: how long traced rounds took, with the id of a trace as exemplar, and how many spans were sent or given up.
func (t *Tracer) Metrics() []prometheus.Collector {
	return []prometheus.Collector{t.times, t.export.spans}
}

// Run traces until ctx ends, and sends what there is then, for at most some seconds.
func (t *Tracer) Run(ctx context.Context) {
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		t.export.run(sending)
	}()
	every := time.NewTicker(tick)
	defer every.Stop()
	for n := 1; ctx.Err() == nil; n++ {
		t.look(ctx, n%wholeRun == 0)
		select {
		case <-every.C:
		case <-ctx.Done():
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTime)
	defer cancel()
	t.look(last, true)
	for _, j := range t.jobs {
		t.send(j.flush())
	}
	t.export.drain(last)
	stop()
	<-sent
}

// look asks for the rounds of all jobs that run, and once more for those of jobs that have ended; with whole, also of jobs that have come and gone since the last look. A
// listener that does not answer is asked again.
func (t *Tracer) look(ctx context.Context, whole bool) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	list, err := t.cfg.Source.Jobs(ctx, !whole)
	if err != nil {
		return
	}
	live := map[string]bool{}
	for _, s := range list {
		over := s.State == job.State_SUCCEEDED || s.State == job.State_FAILED || s.State == job.State_STOPPED
		if live[s.Job] = !over; t.jobs[s.Job] == nil && (!over || s.SubmittedMs >= t.began.UnixMilli()) {
			t.jobs[s.Job] = newTraced()
		}
	}
	for id, j := range t.jobs {
		if j.over && !live[id] {
			continue
		}
		j.over = !live[id]
		d, err := t.cfg.Source.Sampled(ctx, id)
		if err != nil && !j.over || ctx.Err() != nil {
			j.over = false // asked again
			continue
		}
		j.take(d)
		t.send(j.settled())
		if j.over {
			t.send(j.flush())
		}
	}
	if whole { // what the listener has forgotten is nothing to trace any more
		for id := range t.jobs {
			if _, known := live[id]; !known {
				delete(t.jobs, id)
				t.times.DeleteLabelValues(id)
			}
		}
	}
}

// send hands the spans of rounds over, and notes how long the rounds took.
func (t *Tracer) send(rounds []*roundSpans) {
	for _, r := range rounds {
		if r.whole {
			t.times.WithLabelValues(r.job).(prometheus.ExemplarObserver).ObserveWithExemplar(r.took().Seconds(), prometheus.Labels{"trace_id": r.id.String()})
		}
		t.export.add(r.spans)
	}
}
