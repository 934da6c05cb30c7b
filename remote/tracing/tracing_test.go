package tracing

import (
	"context"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
)

const ms = int64(time.Millisecond)

// fakeSource is a listener with one job, which the test writes.
type fakeSource struct {
	mu      sync.Mutex
	details *rpc.JobDetails
}

func (f *fakeSource) set(d *rpc.JobDetails) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.details = d
}

func (f *fakeSource) Jobs(_ context.Context, live bool) (list []*job.JobStatus, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.details.Status; !live || s.State == job.State_RUNNING {
		list = append(list, proto.CloneOf(s))
	}
	return list, nil
}

func (f *fakeSource) Sampled(context.Context, string) (*rpc.JobDetails, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return proto.CloneOf(f.details), nil
}

// told is what a role tells of some rounds, which begin 100 ms apart.
func told(role job.Role, index uint32, clock int64, phases []string, first uint64, rounds ...uint64) *rpc.RoleTimes {
	m := &job.SampledRounds{Clock: clock, Phases: phases, Number: first}
	for _, r := range rounds {
		one := &job.TracedRound{Round: r, Start: int64(r) * 100 * ms, Last: -1}
		for i := range phases {
			one.Took = append(one.Took, int64(i+1)*ms)
		}
		m.Rounds = append(m.Rounds, one)
	}
	return &rpc.RoleTimes{Role: role, Index: index, Rounds: &job.RoundTimes{Sampled: m}}
}

func jobOf(state job.State, times ...*rpc.RoleTimes) *rpc.JobDetails {
	return &rpc.JobDetails{Status: &job.JobStatus{Job: "digits", State: state, SubmittedMs: time.Now().UnixMilli()}, Times: times}
}

// spansIn lists spans as TRACE-LESS text: name, parent's name, start and length in ms.
func spansIn(t *testing.T, spans []*tracepb.Span) (list []string) {
	t.Helper()
	names := map[string]string{}
	for _, s := range spans {
		id := hex.EncodeToString(append(slices.Clone(s.TraceId), s.SpanId...))
		if names[id] != "" || len(s.TraceId) != 16 || len(s.SpanId) != 8 {
			t.Errorf("span %v has an id that is taken, or none", s)
		}
		names[id] = s.Name
	}
	for _, s := range spans {
		parent := "-"
		if len(s.ParentSpanId) > 0 {
			parent = names[hex.EncodeToString(append(slices.Clone(s.TraceId), s.ParentSpanId...))]
		}
		start, end := int64(s.StartTimeUnixNano)/ms, int64(s.EndTimeUnixNano)/ms
		list = append(list, strings.Join([]string{s.Name, "in", parent, "at", time.Duration(start * ms).String(), "for", time.Duration((end - start) * ms).String()}, " "))
	}
	slices.Sort(list)
	return list
}

// A round is one trace: of each role a span with its phases, on the clock of the listener, in the span of the whole round. What was told before is not taken again.
func TestRoundIsATrace(t *testing.T) {
	j := newTraced()
	at := 1000 * ms
	d := jobOf(job.State_RUNNING, told(job.Role_COORDINATOR, 0, at-5*ms, []string{"hand out"}, 0, 10), told(job.Role_TRAINER, 1, at+7*ms, []string{"read", "compute"}, 0, 10, 20))
	d.Times[1].Clock = 7 * ms // its machine is ahead
	j.take(d)
	if got := j.settled(); len(got) > 0 {
		t.Fatalf("%d rounds are sent at once", len(got))
	}
	d.Times = append(d.Times, told(job.Role_PSERVER, 0, at+1*ms, []string{"wait", "apply"}, 0, 10))
	for range settleLooks {
		j.take(d)
	}
	got := j.settled()
	if len(got) != 2 || got[0].round != 10 || got[1].round != 20 || !got[0].whole || got[0].id == got[1].id || got[0].slowest != "trainer 1" {
		t.Fatalf("rounds %+v", got)
	}
	want := []string{"apply in pserver 0 at 2.002s for 2ms", "compute in trainer 1 at 2.001s for 2ms", "coordinator in round at 1.995s for 1ms", "hand out in coordinator at 1.995s for 1ms",
		"pserver 0 in round at 2.001s for 3ms", "read in trainer 1 at 2s for 1ms", "round in - at 1.995s for 9ms", "trainer 1 in round at 2s for 3ms", "wait in pserver 0 at 2.001s for 1ms"}
	if list := spansIn(t, got[0].spans); !slices.Equal(list, want) {
		t.Errorf("spans\n%s\nwant\n%s", strings.Join(list, "\n"), strings.Join(want, "\n"))
	}
	// Late ones come into the trace that was sent, a process that starts again tells from its first round on, and another attempt has traces of its own.
	d.Times = []*rpc.RoleTimes{told(job.Role_TRAINER, 2, at, []string{"read"}, 0, 10), told(job.Role_PSERVER, 0, at+100*ms, []string{"apply"}, 0, 30)}
	j.take(d)
	late := j.flush()
	if len(late) != 2 || late[0].whole || late[0].id != got[0].id || len(late[0].spans) != 2 || !late[1].whole {
		t.Errorf("late rounds %+v", late)
	}
	d.Status.Attempt = 1
	d.Times = []*rpc.RoleTimes{told(job.Role_TRAINER, 2, at+200*ms, []string{"read"}, 0, 10)}
	j.take(d)
	if again := j.flush(); len(again) != 1 || again[0].id == got[0].id {
		t.Errorf("another attempt: %+v", again)
	}
}

// What roles tell, however much, takes no more than so many rounds.
func TestOpenRoundsAreBounded(t *testing.T) {
	j := newTraced()
	for i := range uint64(100) {
		j.take(jobOf(job.State_RUNNING, told(job.Role_TRAINER, 0, 1, []string{"read"}, 16*i, 16*i, 16*i+1, 16*i+2, 16*i+3, 16*i+4)))
	}
	if len(j.open) != maxOpen {
		t.Errorf("%d rounds are open", len(j.open))
	}
}

// receiver is a collector.
type receiver struct {
	mu      sync.Mutex
	spans   []*tracepb.Span
	answers []int // of the next requests; then 200
	asked   int
	got     chan struct{} // has a value after a request
}

func (r *receiver) RoundTrip(q *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	r.ServeHTTP(w, q)
	return w.Result(), nil
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	b, _ := io.ReadAll(q.Body)
	m := &tracepb.TracesData{}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	defer func() {
		select {
		case r.got <- struct{}{}:
		default:
		}
	}()
	if len(r.answers) > 0 {
		code := r.answers[0]
		r.answers = r.answers[1:]
		w.WriteHeader(code)
		return
	}
	if q.Header.Get("Content-Type") != "application/x-protobuf" || q.Header.Get("Authorization") != "Bearer x" || q.URL.Path != tracesPath || proto.Unmarshal(b, m) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for _, of := range m.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			r.spans = append(r.spans, scope.Spans...)
		}
	}
}

func (r *receiver) list() []*tracepb.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.spans)
}

// A tracer sends the rounds of a job over HTTP, those of its end too, and tells Prometheus how long they took, with a trace as exemplar.
func TestTracerSends(t *testing.T) {
	r := &receiver{got: make(chan struct{}, 1)}
	server := httptest.NewServer(r)
	defer server.Close()
	c, err := CollectorOf("", func(key string) string {
		return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL, "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20x"}[key]
	})
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeSource{details: jobOf(job.State_RUNNING, told(job.Role_TRAINER, 0, time.Now().UnixNano(), []string{"read", "compute"}, 0, 10, 20))}
	tracer := New(Config{Source: f, Collector: c, Version: "v1"})
	registry := prometheus.NewRegistry()
	registry.MustRegister(tracer.Metrics()...)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); tracer.Run(ctx) }()
	f.set(jobOf(job.State_SUCCEEDED, told(job.Role_TRAINER, 0, time.Now().UnixNano(), []string{"read", "compute"}, 0, 30)))
	cancel()
	<-ended
	if !slices.ContainsFunc(r.list(), func(s *tracepb.Span) bool { return s.Name == "compute" }) {
		t.Fatalf("sent %v", spansIn(t, r.list()))
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var exemplar *dto.Exemplar
	for _, family := range families {
		for _, m := range family.Metric {
			for _, b := range m.GetHistogram().GetBucket() {
				if b.Exemplar != nil {
					exemplar = b.Exemplar
				}
			}
		}
	}
	root := slices.IndexFunc(r.list(), func(s *tracepb.Span) bool {
		return s.Name == "round" && hex.EncodeToString(s.TraceId) == exemplar.GetLabel()[0].GetValue()
	})
	if root < 0 {
		t.Errorf("no trace is the exemplar %v", exemplar)
	}
}

// While a collector fails, spans wait for it within a bound, that is said once, and they are sent when it answers.
func TestCollectorFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := &receiver{answers: []int{503, 429, 502}, got: make(chan struct{}, 1)}
		cfg := Config{Collector: Collector{URL: "http://collector" + tracesPath, Header: map[string]string{"Authorization": "Bearer x"}}, Log: slog.New(slog.NewTextHandler(&log, nil))}
		e := newExporter(cfg)
		e.client.Transport = r
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); e.run(ctx) }()
		for i := range maxQueued / 5000 * 2 {
			some := make([]*tracepb.Span, 5000)
			for k := range some {
				some[k] = &tracepb.Span{TraceId: []byte{byte(i)}}
			}
			e.add(some)
		}
		e.mu.Lock()
		waiting, lost := len(e.queue), e.lost
		e.mu.Unlock()
		if waiting > maxQueued+maxRequest || lost < maxQueued-maxRequest {
			t.Errorf("%d spans wait, %d are lost", waiting, lost)
		}
		e.drain(ctx)
		if n := len(r.list()); n != waiting || r.asked != (waiting+maxRequest-1)/maxRequest+3 {
			t.Errorf("%d spans were sent of %d, in %d requests", n, waiting, r.asked)
		}
		// What the collector refuses for good is not sent again.
		r.mu.Lock()
		r.answers = []int{400}
		r.mu.Unlock()
		e.add([]*tracepb.Span{{}})
		e.drain(ctx)
		e.add([]*tracepb.Span{{}})
		e.drain(ctx)
		if n := len(r.list()); n != waiting+1 {
			t.Errorf("%d spans were sent, want %d", n, waiting+1)
		}
		cancel()
		<-ended
		if text := log.String(); strings.Count(text, "traces cannot be sent") != 2 || strings.Count(text, "traces are sent again") != 2 {
			t.Errorf("the log:\n%s", text)
		}
	})
}

// The variables of OpenTelemetry name the collector, as for other programs.
func TestCollectorOf(t *testing.T) {
	for name, c := range map[string]struct {
		base string
		env  map[string]string
		want string
		bad  string
	}{
		"none":               {},
		"a flag":             {base: "http://10.0.0.1:4318", want: "http://10.0.0.1:4318/v1/traces"},
		"with a path":        {base: "https://collector/otlp/", want: "https://collector/otlp/v1/traces"},
		"with the whole one": {base: "https://collector/otlp/v1/traces", want: "https://collector/otlp/v1/traces"},
		"the environment":    {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:4318"}, want: "http://a:4318/v1/traces"},
		"for traces":         {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:4318", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://b/x"}, want: "http://b/x"},
		"a flag first":       {base: "http://c", env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://b/x"}, want: "http://c/v1/traces"},
		"no scheme":          {base: "10.0.0.1:4318", bad: "--otlp"},
		"grpc":               {base: "grpc://10.0.0.1:4317", bad: "--otlp"},
		"a secret":           {base: "http://user:password@collector", bad: "OTEL_EXPORTER_OTLP_HEADERS"},
		"a bad header":       {base: "http://c", env: map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "a=b,secret"}, bad: "OTEL_EXPORTER_OTLP_HEADERS"},
		"a line in a header": {base: "http://c", env: map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "a=b%0d%0ac"}, bad: "OTEL_EXPORTER_OTLP_HEADERS"},
		"no certificates":    {base: "http://c", env: map[string]string{"OTEL_EXPORTER_OTLP_CERTIFICATE": "/nowhere"}, bad: "OTEL_EXPORTER_OTLP_CERTIFICATE"},
	} {
		got, err := CollectorOf(c.base, func(key string) string { return c.env[key] })
		if c.bad == "" && (err != nil || got.URL != c.want) || c.bad != "" && (err == nil || !strings.Contains(err.Error(), c.bad)) {
			t.Errorf("%s: %q, %v", name, got.URL, err)
		}
		if err != nil && (strings.Contains(err.Error(), "password") || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: the error tells a secret: %v", name, err)
		}
	}
}
