package edlcmd

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/metrics"
	"github.com/edl-go/edl/tensor"
)

// Events of "edl run --output json", one line each; docs/commands.md describes them.
type (
	fetchEvent struct {
		Event string `json:"event"`
		Name  string `json:"name"`
		jsonTensor
	}
	stepEvent struct {
		Event      string         `json:"event"`
		Pass       int            `json:"pass"`
		Step       uint64         `json:"step"`
		Attempt    int            `json:"attempt,omitempty"`  // from 0: how often the job has started over
		Resumed    bool           `json:"resumed,omitempty"`  // the first step of an attempt that follows another one
		Repeated   bool           `json:"repeated,omitempty"` // an earlier attempt has reported a step of this number
		Loss       *jsonNumber    `json:"loss,omitempty"`
		Rows       int64          `json:"rows,omitempty"`       // given where Unreported or Dropped is
		Unreported int64          `json:"unreported,omitempty"` // of Rows
		Dropped    []int          `json:"dropped,omitempty"`    // trainers, by position, whose rows do not count in the step
		Fetch      map[string]any `json:"fetch"`
	}
	evalEvent struct {
		Event   string                `json:"event"`
		Pass    int                   `json:"pass"`
		Step    uint64                `json:"step"` // that was trained last
		Records int64                 `json:"records"`
		Seconds float64               `json:"seconds"`
		Metrics map[string]jsonNumber `json:"metrics"`
		Best    bool                  `json:"best,omitempty"`
	}
	doneEvent struct {
		Event   string                `json:"event"`
		Passes  int                   `json:"passes"`
		Steps   uint64                `json:"steps"`
		Records int64                 `json:"records"`
		Seconds float64               `json:"seconds"`
		Mean    map[string]jsonNumber `json:"mean,omitempty"`
		Metrics map[string]jsonNumber `json:"metrics,omitempty"`
		Best    *evalEvent            `json:"best,omitempty"`
		Stopped string                `json:"stopped,omitempty"` // the rule of --stop-when
	}
)

// jsonReporter writes events as lines of JSON.
type jsonReporter struct {
	w     io.Writer
	watch watch
	some  stepsOnly
}

func newJSONReporter(w io.Writer, what watch) *jsonReporter {
	r := &jsonReporter{w: w, watch: what}
	r.some = stepsOnly{every: what.every, show: r.show}
	return r
}

func (r *jsonReporter) value(name string, t *tensor.Tensor) error {
	return writeJSON(r.w, fetchEvent{"fetch", name, newJSONTensor(t)})
}

func (r *jsonReporter) step(s executor.StepResult) error {
	return r.some.step(s)
}

func (r *jsonReporter) show(s executor.StepResult) error {
	e := stepEvent{Event: "step", Pass: s.Pass, Step: s.Step, Attempt: s.Attempt, Resumed: s.Resumed, Repeated: s.Repeated, Fetch: map[string]any{}}
	if s.Unreported > 0 {
		e.Rows, e.Unreported = s.Rows, s.Unreported
	}
	if len(s.Dropped) > 0 {
		e.Rows, e.Dropped = s.Rows, s.Dropped
	}
	if loss, ok := r.watch.lossOf(s); ok {
		e.Loss = (*jsonNumber)(&loss)
	}
	for i, t := range s.Fetched {
		if t.Len() == 1 {
			e.Fetch[r.watch.names[i]] = scalarOf(t, 0)
		} else {
			e.Fetch[r.watch.names[i]] = newJSONTensor(t)
		}
	}
	return writeJSON(r.w, e)
}

func (r *jsonReporter) evaluated(e evaluation) error { return writeJSON(r.w, newEvalEvent(e)) }

func newEvalEvent(e evaluation) *evalEvent {
	return &evalEvent{"eval", e.pass, e.step, e.records, seconds(e.elapsed), jsonResults(e.results), e.best}
}

func (r *jsonReporter) done(s executor.Summary, m *means, o outcome) error {
	if err := r.some.flush(); err != nil {
		return err
	}
	e := doneEvent{Event: "done", Passes: s.Passes, Steps: s.Steps, Records: s.Records, Seconds: seconds(s.Elapsed)}
	if r.watch.mean {
		e.Mean = map[string]jsonNumber{}
		for _, name := range r.watch.names {
			if mean, ok := m.of(name); ok {
				e.Mean[name] = jsonNumber(mean)
			}
		}
	}
	e.Metrics, e.Stopped = jsonResults(o.metrics), o.stopped
	if o.best != nil {
		e.Best = newEvalEvent(*o.best)
	}
	return writeJSON(r.w, e)
}

// jsonResults returns metrics by name.
func jsonResults(scored []metrics.Result) map[string]jsonNumber {
	values := map[string]jsonNumber{}
	for _, result := range scored {
		values[result.Name] = jsonNumber(result.Value)
	}
	return values
}

func (r *jsonReporter) close() {}

// A jsonNumber is a number that stays legal JSON when it is not finite: then it is "NaN", "Infinity" or "-Infinity".
type jsonNumber float64

// MarshalJSON implements json.Marshaler.
func (n jsonNumber) MarshalJSON() ([]byte, error) { return appendNumber(nil, float64(n)), nil }

// UnmarshalJSON implements json.Unmarshaler: it reads what MarshalJSON writes.
func (n *jsonNumber) UnmarshalJSON(b []byte) error {
	v, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	*n = jsonNumber(v)
	return err
}

// appendNumber appends the shortest form that reads back as v. A float32 is written as the float64 that it equals.
func appendNumber(b []byte, v float64) []byte {
	switch {
	case math.IsNaN(v):
		return append(b, `"NaN"`...)
	case math.IsInf(v, 1):
		return append(b, `"Infinity"`...)
	case math.IsInf(v, -1):
		return append(b, `"-Infinity"`...)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}

// jsonElements is the elements of a tensor in row-major order, as one JSON array.
type jsonElements struct{ *tensor.Tensor }

// MarshalJSON implements json.Marshaler.
func (e jsonElements) MarshalJSON() ([]byte, error) {
	b := []byte{'['}
	for i := range e.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendElement(b, e.Tensor, i)
	}
	return append(b, ']'), nil
}

func appendElement(b []byte, t *tensor.Tensor, i int) []byte {
	switch t.DType() {
	case tensor.Bool:
		return strconv.AppendBool(b, t.Bools()[i])
	case tensor.Int32:
		return strconv.AppendInt(b, int64(t.Int32s()[i]), 10)
	case tensor.Int64:
		return strconv.AppendInt(b, t.Int64s()[i], 10)
	}
	return appendNumber(b, float(t, i))
}

// A jsonTensor is a tensor with its type.
type jsonTensor struct {
	DType string       `json:"dtype"`
	Dims  []int64      `json:"dims"`
	LoD   [][]int64    `json:"lod,omitempty"`
	Data  jsonElements `json:"data"`
}

func newJSONTensor(t *tensor.Tensor) jsonTensor {
	dims := t.Dims()
	if dims == nil {
		dims = []int64{}
	}
	return jsonTensor{t.DType().String(), dims, t.LoD(), jsonElements{t}}
}

// float returns an element as a number, 0 and 1 for truth values.
func float(t *tensor.Tensor, i int) float64 {
	switch t.DType() {
	case tensor.Bool:
		if t.Bools()[i] {
			return 1
		}
		return 0
	case tensor.Int32:
		return float64(t.Int32s()[i])
	case tensor.Int64:
		return float64(t.Int64s()[i])
	case tensor.Float32:
		return float64(t.Float32s()[i])
	case tensor.BFloat16:
		return float64(tensor.Widen(tensor.Data[uint16](t)[i]))
	}
	return t.Float64s()[i]
}

// A scalar is one element of a tensor as reports have it: an integer with all its bits, anything else as float gives it.
type scalar struct {
	whole   int64
	number  float64
	integer bool
}

func scalarOf(t *tensor.Tensor, i int) scalar {
	switch t.DType() {
	case tensor.Int32:
		return scalar{whole: int64(t.Int32s()[i]), integer: true}
	case tensor.Int64:
		return scalar{whole: t.Int64s()[i], integer: true}
	}
	return scalar{number: float(t, i)}
}

// less compares scalars of one tensor.
func (s scalar) less(than scalar) bool { return s.whole < than.whole || s.number < than.number }

// String is the scalar for people: 6 digits of a float.
func (s scalar) String() string {
	if s.integer {
		return strconv.FormatInt(s.whole, 10)
	}
	return fmt.Sprintf("%.6g", s.number)
}

// MarshalJSON implements json.Marshaler.
func (s scalar) MarshalJSON() ([]byte, error) {
	if s.integer {
		return strconv.AppendInt(nil, s.whole, 10), nil
	}
	return appendNumber(nil, s.number), nil
}

// maxShown is how many elements of one axis people are shown; of longer axes the middle is left out.
const maxShown = 12

// textTensor returns the elements of a tensor for people: nested brackets, one line per row, float32 with its own precision.
func textTensor(t *tensor.Tensor) string {
	if len(t.Dims()) == 0 {
		return textElement(t, 0)
	}
	var b strings.Builder
	writeAxis(&b, t, t.Dims(), 0, "")
	return b.String()
}

// textLoD returns the offsets of sequences for people, in the form that --lod takes: " lod 0,2,5". Of many offsets the middle is left out.
func textLoD(lod [][]int64) string {
	var b strings.Builder
	for i, level := range lod {
		if b.WriteByte('/'); i == 0 {
			b.Reset()
			b.WriteString(" lod ")
		}
		for j := 0; j < len(level); j++ {
			if j > 0 {
				b.WriteByte(',')
			}
			if j == maxShown/2 && len(level) > maxShown {
				b.WriteString("...,")
				j = len(level) - maxShown/2
			}
			b.WriteString(strconv.FormatInt(level[j], 10))
		}
	}
	return b.String()
}

func writeAxis(b *strings.Builder, t *tensor.Tensor, dims []int64, from int, indent string) {
	b.WriteByte('[')
	defer b.WriteByte(']')
	n, stride := int(dims[0]), 1
	for _, d := range dims[1:] {
		stride *= int(d)
	}
	separator := " "
	if len(dims) > 1 {
		separator = "\n" + indent + " "
	}
	for i := 0; i < n; i++ {
		if i > 0 {
			b.WriteString(separator)
		}
		if i == maxShown/2 && n > maxShown {
			b.WriteString("..." + separator)
			i = n - maxShown/2
		}
		if len(dims) > 1 {
			writeAxis(b, t, dims[1:], from+i*stride, indent+" ")
		} else {
			b.WriteString(textElement(t, from+i))
		}
	}
}

func textElement(t *tensor.Tensor, i int) string {
	if (t.DType() == tensor.Float32 || t.DType() == tensor.BFloat16) && !math.IsInf(float(t, i), 0) {
		return strconv.FormatFloat(float(t, i), 'g', -1, 32)
	}
	return strings.Trim(string(appendElement(nil, t, i)), `"`)
}
