package metrics

import (
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// maxMetrics bounds the metrics of a Set.
const maxMetrics = 100

// A Spec names a metric, and the variables that it is computed from.
type Spec struct {
	Kind       string // one of Kinds, such as "auc" or "top-5"
	Prediction string
	Label      string
	Weight     string // empty: each row weighs 1
}

// ParseSpec reads KIND=PREDICTION,LABEL or KIND=PREDICTION,LABEL,WEIGHT. KIND alone leaves the variables empty; Fill finds them in a program.
func ParseSpec(text string) (Spec, error) {
	name, rest, given := strings.Cut(text, "=")
	s := Spec{Kind: name}
	if _, err := kindOf(name); err != nil {
		return s, err
	}
	if !given {
		return s, nil
	}
	parts := strings.Split(rest, ",")
	if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
		return s, fault.E(fault.InvalidArgument, fault.At("metric"), fault.Got(fault.Quote(text)), fault.Want(name+"=PREDICTION,LABEL or "+name+"=PREDICTION,LABEL,WEIGHT"))
	}
	s.Prediction, s.Label = parts[0], parts[1]
	if len(parts) == 3 {
		s.Weight = parts[2]
	}
	return s, nil
}

// String is the text that ParseSpec reads.
func (s Spec) String() string {
	if s.Prediction == "" {
		return s.Kind
	}
	return strings.TrimSuffix(s.Kind+"="+s.Prediction+","+s.Label+","+s.Weight, ",")
}

// A Result is the value of one metric of a Set.
type Result struct {
	Name  string  // of Labels: auc, or auc(click) where the Set has several of the kind
	Kind  string  // for Better
	Value float64 // NaN where the rows do not define it
	Bound float64 // how far Value may be from that of the exact scores; 0 but for AUC of very many scores
}

// A Set is several metrics of one run. It is for one goroutine.
type Set struct {
	names   []string // to fetch
	metrics []*Metric
	at      [][3]int // places of prediction, label and weight in names; -1: none
}

// Of returns the metrics of no rows.
func Of(specs ...Spec) (*Set, error) {
	if len(specs) > maxMetrics {
		return nil, fault.E(fault.TooLarge, fault.At("metrics"), fault.Gotf("%d metrics", len(specs)), fault.Wantf("at most %d", maxMetrics))
	}
	s := &Set{}
	for i, spec := range specs {
		if slices.Contains(specs[:i], spec) {
			return nil, fault.E(fault.InvalidArgument, fault.At("metrics"), fault.Got(spec.Kind+" of "+spec.Prediction+" twice"), fault.Want("each metric once"))
		}
		if spec.Prediction == "" || spec.Label == "" {
			return nil, fault.E(fault.InvalidArgument, fault.At("metrics"), fault.Got(spec.Kind+" without a prediction or a label"), fault.Want("the names of both variables"))
		}
		m, err := newMetric(spec)
		if err != nil {
			return nil, err
		}
		s.metrics = append(s.metrics, m)
		s.at = append(s.at, [3]int{s.place(spec.Prediction), s.place(spec.Label), s.place(spec.Weight)})
	}
	return s, nil
}

// place returns the index of a variable among those that are fetched, -1 if there is none.
func (s *Set) place(name string) int {
	if name == "" {
		return -1
	}
	if i := slices.Index(s.names, name); i >= 0 {
		return i
	}
	s.names = append(s.names, name)
	return len(s.names) - 1
}

// Names returns the variables to fetch, each once.
func (s *Set) Names() []string { return slices.Clone(s.names) }

// Add adds the rows of a step. fetched are the variables of Names, in that order.
func (s *Set) Add(fetched []*tensor.Tensor) error {
	if len(fetched) != len(s.names) {
		return fault.E(fault.InvalidArgument, fault.At("metrics"), fault.Gotf("%d variables", len(fetched)), fault.Wantf("%d: %s", len(s.names), strings.Join(s.names, ", ")))
	}
	for i, m := range s.metrics {
		var weight *tensor.Tensor
		if at := s.at[i][2]; at >= 0 {
			weight = fetched[at]
		}
		if err := m.Add(fetched[s.at[i][0]], fetched[s.at[i][1]], weight); err != nil {
			return err
		}
	}
	return nil
}

// Merge adds the rows of another Set of the same metrics, which does not change.
func (s *Set) Merge(other *Set) error {
	same := slices.EqualFunc(s.metrics, other.metrics, func(a, b *Metric) bool { return a.names == b.names })
	if !same {
		return fault.E(fault.InvalidArgument, fault.At("metrics"), fault.Got("a merge of sets of other metrics"), fault.Want("equal metrics in equal order"))
	}
	for i, m := range s.metrics {
		if err := m.Merge(other.metrics[i]); err != nil {
			return err
		}
	}
	return nil
}

// Labels returns what the metrics are called, in the order of Of: each by its kind, with its variables in brackets where the Set has several of the kind.
func (s *Set) Labels() []string {
	var labels []string
	for _, m := range s.metrics {
		label, of := m.names.Kind, m.names.Prediction
		alike := func(differ func(o Spec) bool) bool {
			return slices.ContainsFunc(s.metrics, func(o *Metric) bool { return o != m && o.names.Kind == m.names.Kind && !differ(o.names) })
		}
		if alike(func(o Spec) bool { return o.Prediction != m.names.Prediction }) { // its label and weight differ
			of = strings.TrimSuffix(of+","+m.names.Label+","+m.names.Weight, ",")
		}
		if alike(func(Spec) bool { return false }) {
			label += "(" + of + ")"
		}
		labels = append(labels, label)
	}
	return labels
}

// Results returns the values of all metrics, in the order of Of.
func (s *Set) Results() ([]Result, error) {
	var results []Result
	names := s.Labels()
	for i, m := range s.metrics {
		value, bound, err := m.Value()
		if err != nil {
			return nil, err
		}
		results = append(results, Result{Name: names[i], Kind: m.names.Kind, Value: value, Bound: bound})
	}
	return results, nil
}
