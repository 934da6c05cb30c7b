package tracing

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
)

// A traceID names the trace of a round: a hash of its job, when that was submitted, its attempt, and the number of the round. A job that goes back to a checkpoint trains
// rounds again; both trainings of a round are in one trace.
type traceID [16]byte

// String is the id as tools for traces show it.
func (id traceID) String() string { return hex.EncodeToString(id[:]) }

func traceOf(s *job.JobStatus, round uint64) (id traceID) {
	sum := sha256.Sum256(fmt.Appendf(nil, "edl round\x00%s\x00%d\x00%d\x00%d", s.Job, s.SubmittedMs, s.Attempt, round))
	copy(id[:], sum[:])
	return id
}

// spanOf names a span of a trace: the same span, told twice, has the same id.
func (id traceID) spanOf(role string, start int64, phase string) []byte {
	b := binary.LittleEndian.AppendUint64(append([]byte(nil), id[:]...), uint64(start))
	sum := sha256.Sum256(append(b, role+"\x00"+phase...))
	return sum[:8]
}

// rootOf names the span of the whole round.
func (id traceID) rootOf() []byte { return id.spanOf("", 0, "round") }

// roundSpans are the spans of a round that were not sent yet.
type roundSpans struct {
	id          traceID
	job         string
	round       uint64
	spans       []*tracepb.Span
	begin, end  int64 // nanoseconds since 1970, by the clock of the listener
	slowest     string
	longest     int64
	looks       int  // since the first span came
	whole, late bool // the span of the round is among them; was sent before
}

func (r *roundSpans) took() time.Duration { return time.Duration(r.end - r.begin) }

// settleLooks is after how many looks a round is sent: roles tell of it once a second, not at the same time.
const settleLooks = 3

// maxOpen bounds the rounds of a job that wait for more spans, and maxSpans the spans of one round.
const (
	maxOpen  = 256
	maxSpans = 50_000
)

// traced is a job whose rounds are traced.
type traced struct {
	told map[string]place // by role: what was taken of it
	open map[traceID]*roundSpans
	sent map[traceID]uint64 // rounds whose own span was sent, with the look of that; the last ones
	look uint64
	over bool // the job has ended, and was asked for once more
}

// A place is how far the rounds of a process were taken.
type place struct {
	clock int64 // of the process
	next  uint64
}

func newTraced() *traced {
	return &traced{told: map[string]place{}, open: map[traceID]*roundSpans{}, sent: map[traceID]uint64{}}
}

// take makes spans of the rounds that roles have told of and that were not taken before.
func (j *traced) take(d *rpc.JobDetails) {
	j.look++
	for _, r := range j.open {
		r.looks++
	}
	for _, t := range d.GetTimes() {
		m := t.GetRounds().GetSampled()
		if m == nil {
			continue
		}
		role := strings.ToLower(t.Role.String())
		name := fmt.Sprintf("%s %d", role, t.Index)
		if t.Role == job.Role_COORDINATOR {
			name = role
		}
		from := j.told[name]
		if from.clock != m.Clock {
			from = place{clock: m.Clock}
		}
		for i, one := range m.Rounds {
			if number := m.Number + uint64(i); number >= from.next {
				from.next = number + 1
				j.enter(d.Status, t, name, m, one)
			}
		}
		j.told[name] = from
	}
}

// enter makes the spans of one role in one round.
func (j *traced) enter(s *job.JobStatus, t *rpc.RoleTimes, name string, m *job.SampledRounds, one *job.TracedRound) {
	id := traceOf(s, one.Round)
	r := j.open[id]
	if r == nil {
		if len(j.open) >= maxOpen {
			return
		}
		_, late := j.sent[id]
		r = &roundSpans{id: id, job: s.Job, round: one.Round, late: late}
		j.open[id] = r
	}
	if len(r.spans)+len(m.Phases)+1 > maxSpans {
		return
	}
	start := m.Clock + one.Start - t.Clock
	end := start
	var phases []*tracepb.Span
	own := id.spanOf(name, m.Clock+one.Start, "")
	for i, phase := range m.Phases {
		took := one.Took[i]
		if took > 0 {
			phases = append(phases, &tracepb.Span{TraceId: id[:], SpanId: id.spanOf(name, m.Clock+one.Start, phase), ParentSpanId: own, Name: phase,
				Kind: tracepb.Span_SPAN_KIND_INTERNAL, StartTimeUnixNano: uint64(max(0, end)), EndTimeUnixNano: uint64(max(0, end+took))})
		}
		end += took
	}
	of := []*commonpb.KeyValue{text("edl.job", s.Job), number("edl.round", one.Round), text("edl.role", strings.ToLower(t.Role.String())), number("edl.index", uint64(t.Index))}
	if t.Node != "" {
		of = append(of, text("edl.node", t.Node))
	}
	if one.Last >= 0 { // of a pserver the one that the others waited for
		key := "edl.last_trainer"
		if t.Role == job.Role_COORDINATOR {
			key = "edl.for_trainer"
		}
		of = append(of, number(key, uint64(one.Last)))
	}
	r.spans = append(append(r.spans, &tracepb.Span{TraceId: id[:], SpanId: own, ParentSpanId: id.rootOf(), Name: name, Kind: tracepb.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano: uint64(max(0, start)), EndTimeUnixNano: uint64(max(0, end)), Attributes: of}), phases...)
	if r.begin == 0 || start < r.begin {
		r.begin = start
	}
	r.end = max(r.end, end)
	if t.Role == job.Role_TRAINER && end-start > r.longest {
		r.longest, r.slowest = end-start, name
	}
}

// settled takes the rounds of which all roles have had the time to tell.
func (j *traced) settled() []*roundSpans {
	return j.takeIf(func(r *roundSpans) bool { return r.looks >= settleLooks })
}

// flush takes all rounds.
func (j *traced) flush() []*roundSpans { return j.takeIf(func(*roundSpans) bool { return true }) }

// takeIf takes some of the rounds, the first ones first, with the span of the whole round. What comes later of a round has none of its own.
func (j *traced) takeIf(which func(*roundSpans) bool) (out []*roundSpans) {
	for id, r := range j.open {
		if which(r) {
			delete(j.open, id)
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *roundSpans) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.round, b.round))
	})
	for _, r := range out {
		if r.late {
			continue
		}
		r.whole = true
		j.sent[r.id] = j.look
		of := []*commonpb.KeyValue{text("edl.job", r.job), number("edl.round", r.round)}
		if r.slowest != "" {
			of = append(of, text("edl.slowest", r.slowest))
		}
		r.spans = append(r.spans, &tracepb.Span{TraceId: r.id[:], SpanId: r.id.rootOf(), Name: "round", Kind: tracepb.Span_SPAN_KIND_INTERNAL,
			StartTimeUnixNano: uint64(max(0, r.begin)), EndTimeUnixNano: uint64(max(0, r.end)), Attributes: of})
	}
	maps.DeleteFunc(j.sent, func(_ traceID, look uint64) bool { return look+keptLooks < j.look })
	return out
}

// keptLooks is for how many looks it is remembered that the span of a round was sent.
const keptLooks = 60

func text(key, value string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: strings.ToValidUTF8(value, "\uFFFD")}}}
}

func number(key string, value uint64) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: int64(value)}}}
}
