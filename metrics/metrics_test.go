package metrics

import (
	"bufio"
	"encoding/csv"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

func floats(t *testing.T, v []float32, dims ...int64) *tensor.Tensor {
	t.Helper()
	if len(dims) == 0 {
		dims = []int64{int64(len(v))}
	}
	x, err := tensor.FromSlice(v, dims...)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func ints(t *testing.T, v []int64) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromSlice(v, int64(len(v)), 1)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// valueOf is the value of a metric, which must have one.
func valueOf(t *testing.T, m *Metric) (value, bound float64) {
	t.Helper()
	value, bound, err := m.Value()
	if err != nil {
		t.Fatal(err)
	}
	return value, bound
}

// Values by hand of four rows with two classes, and of the kinds for more classes and for numbers.
func TestValuesByHand(t *testing.T) {
	nan := math.NaN()
	labels := []int64{0, 1, 1, 0}
	scored := []float32{0.25, 0.25, 0.75, 0.125}
	three := []float32{0.5, 0.25, 0.25, 0.25, 0.25, 0.5}
	for _, c := range []struct {
		kind        string
		predictions []float32
		columns     int64
		labels      []int64
		weights     []float32
		want        float64
	}{
		{"auc", scored, 1, labels, nil, 3.5 / 4},
		{"auc", []float32{3, -7, 3, 9}, 1, []int64{1, 0, 0, 1}, nil, 3.5 / 4},
		{"auc", scored, 1, labels, []float32{2, 1, 1, 0}, 1.5 / 2},
		{"auc", []float32{0.75, 0.25, 0.25, 0.75}, 2, []int64{0, 1}, nil, 1},
		{"auc", scored, 1, []int64{1, 1, 1, 1}, nil, nan},
		{"accuracy", scored, 1, labels, nil, 0.75},
		{"accuracy", three, 3, []int64{0, 1}, nil, 0.5},
		{"accuracy", []float32{0.5, 0.5}, 2, []int64{0}, nil, 1},
		{"top-1", three, 3, []int64{0, 1}, nil, 0.5},
		{"top-2", three, 3, []int64{2, 0}, nil, 0.5},
		{"top-2", three, 3, []int64{1, 0}, nil, 1},
		{"top-1", scored, 1, labels, nil, 0.75},
		{"log_loss", []float32{0.5, 0.25}, 1, []int64{1, 0}, nil, (math.Log(2) - math.Log(0.75)) / 2},
		{"log_loss", three, 3, []int64{0, 1}, []float32{3, 1}, (3*math.Log(2) + math.Log(4)) / 4},
		{"precision", scored, 1, labels, nil, 1},
		{"recall", scored, 1, labels, nil, 0.5},
		{"f1", scored, 1, labels, nil, 2.0 / 3},
		{"precision", []float32{0.5}, 1, []int64{1}, nil, nan},
		{"calibration", scored, 1, labels, nil, 1.375 / 2},
		{"rmse", []float32{1, 2}, 1, []int64{4, 6}, nil, math.Sqrt(12.5)},
		{"rmse", []float32{1, 2}, 1, []int64{4, 6}, []float32{0, 1}, 4},
		{"mae", []float32{1, 2}, 1, []int64{4, 6}, nil, 3.5},
		{"r2", []float32{1, 2, 3}, 1, []int64{1, 2, 6}, nil, 1 - 9.0/14},
		{"r2", []float32{1, 2}, 1, []int64{3, 3}, nil, nan},
		{"rmse", nil, 1, nil, nil, nan},
		{"auc", nil, 1, nil, nil, nan},
	} {
		m, err := New(c.kind)
		if err != nil {
			t.Fatal(err)
		}
		var weights *tensor.Tensor
		if c.weights != nil {
			weights = floats(t, c.weights)
		}
		if err := m.Add(floats(t, c.predictions, int64(len(c.labels)), c.columns), ints(t, c.labels), weights); err != nil {
			t.Fatal(err)
		}
		got, bound := valueOf(t, m)
		if math.Abs(got-c.want) > 1e-15 || math.IsNaN(got) != math.IsNaN(c.want) || bound != 0 {
			t.Errorf("%s of %v, %v, %v is %v within %v, want %v", c.kind, c.predictions, c.labels, c.weights, got, bound, c.want)
		}
		if m.Rows() != int64(len(c.labels)) {
			t.Errorf("%d rows, want %d", m.Rows(), len(c.labels))
		}
	}
}

// Scores of the Adult table have the metrics that scikit-learn says; testdata/compare.py makes the table.
func TestLikeScikitLearn(t *testing.T) {
	root := os.Getenv("EDL_TESTDATA")
	if root == "" {
		t.Skip("EDL_TESTDATA is not set")
	}
	predictions, labels, weights := adult(t, filepath.Join(root, "adult", "adult.data"))
	f, err := os.Open(filepath.Join("testdata", "sklearn.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	table, err := csv.NewReader(f).ReadAll()
	if err != nil || len(table) != 20 {
		t.Fatalf("%d lines, %v", len(table), err)
	}
	for _, line := range table {
		kind, weighted := strings.CutPrefix(line[0], "weighted ")
		want, err := strconv.ParseFloat(line[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		m, err := New(kind)
		if err != nil {
			t.Fatal(err)
		}
		var w *tensor.Tensor
		if weighted {
			w = weights
		}
		if err := m.Add(predictions, labels, w); err != nil {
			t.Fatal(err)
		}
		if got, bound := valueOf(t, m); math.Abs(got-want) > 1e-11 || bound != 0 {
			t.Errorf("%s is %v within %v, scikit-learn says %v", line[0], got, bound, want)
		}
	}
}

// adult scores the rows of the Adult table as testdata/compare.py does. Every operation is exact in float32.
func adult(t *testing.T, path string) (predictions, labels, weights *tensor.Tensor) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var p, w []float32
	var y []int64
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Split(lines.Text(), ",")
		number := func(i int) float32 {
			v, _ := strconv.ParseFloat(strings.TrimSpace(fields[i]), 32)
			return float32(v)
		}
		if len(fields) != 15 || fields[0] == "age" {
			continue
		}
		logit := 0.03125*number(0) + 0.25*number(4) + 0.03125*number(12) - 6.5
		p = append(p, min(max(logit/8+0.5, 1.0/64), 63.0/64))
		w = append(w, number(2))
		y = append(y, 0)
		if strings.HasPrefix(strings.TrimSpace(fields[14]), ">") {
			y[len(y)-1] = 1
		}
	}
	return floats(t, p, int64(len(p)), 1), ints(t, y), floats(t, w)
}

// A metric does not depend on the order of rows, nor on how they are divided among metrics that are merged: the bits are the same.
func TestMergeEqualsOneStream(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const rows = 500
	var p, w []float32
	var y []int64
	for range rows {
		p = append(p, float32(r.IntN(97))/128+float32(r.IntN(2))*r.Float32()/8)
		w = append(w, r.Float32()*float32(math.Ldexp(1, r.IntN(20)-10)))
		y = append(y, int64(r.IntN(2)))
	}
	for _, kind := range append(Kinds(), "top-1") {
		if kind == "top-K" {
			continue
		}
		var values []float64
		for trial := range 6 {
			parts := []*Metric{}
			for range 1 + trial {
				m, err := New(kind)
				if err != nil {
					t.Fatal(err)
				}
				if m.ranking != nil {
					m.ranking.limit = 40
				}
				parts = append(parts, m)
			}
			order := r.Perm(rows)
			for len(order) > 0 {
				n := min(len(order), 1+r.IntN(60))
				var bp, bw []float32
				var by []int64
				for _, i := range order[:n] {
					bp, bw, by = append(bp, p[i]), append(bw, w[i]), append(by, y[i])
				}
				order = order[n:]
				m := parts[r.IntN(len(parts))]
				if err := m.Add(floats(t, bp), ints(t, by), floats(t, bw)); err != nil {
					t.Fatal(err)
				}
				if m.ranking != nil && r.IntN(2) == 0 {
					if err := m.ranking.settle(); err != nil {
						t.Fatal(err)
					}
				}
			}
			r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
			for _, other := range parts[1:] {
				if err := parts[0].Merge(other); err != nil {
					t.Fatal(err)
				}
			}
			got, _ := valueOf(t, parts[0])
			if values = append(values, got); got != values[0] || parts[0].Rows() != rows {
				t.Errorf("%s is %v of %d parts, %v of one", kind, got, len(parts), values[0])
			}
		}
	}
}

// A ranking of too many scores keeps its bound on memory, and the exact area is within the bound that it states. Few scores are exact.
func TestRankingIsBounded(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const limit, rows = 256, 20_000
	exact, bounded := newRanking(1<<30), newRanking(limit)
	for range rows {
		positive := r.IntN(4) == 0
		score := r.NormFloat64()
		if positive {
			score += 0.8
		}
		for _, to := range []*ranking{exact, bounded} {
			if err := to.add(score, positive, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	want, zero, err := exact.area()
	if err != nil || zero != 0 {
		t.Fatal(zero, err)
	}
	got, bound, err := bounded.area()
	if err != nil {
		t.Fatal(err)
	}
	if len(bounded.bins) > limit || len(bounded.bins) < limit/4 {
		t.Errorf("%d bins, want up to %d and not far fewer", len(bounded.bins), limit)
	}
	if math.Abs(got-want) > bound || bound > 0.01 || bound == 0 {
		t.Errorf("area %v within %v, exactly it is %v", got, bound, want)
	}
}

// Scores order as numbers do, and both zeros are one.
func TestKeysOrder(t *testing.T) {
	ordered := []float64{-math.MaxFloat64, -2, -1, -math.SmallestNonzeroFloat64, 0, math.SmallestNonzeroFloat64, 0.5, 1, math.MaxFloat64}
	for i := 1; i < len(ordered); i++ {
		if keyOf(ordered[i-1]) >= keyOf(ordered[i]) {
			t.Errorf("%v does not come before %v", ordered[i-1], ordered[i])
		}
	}
	if keyOf(0) != keyOf(math.Copysign(0, -1)) {
		t.Error("the zeros differ")
	}
}

// Sums are exact whatever cancels, and however they are divided.
func TestSumsAreExact(t *testing.T) {
	terms := []float64{1e300, 1, -1e300, 0x1p-1074, -3, 1e-300, math.MaxFloat64, -math.MaxFloat64, -1e-300, 0, math.Copysign(0, -1)}
	r := rand.New(rand.NewPCG(5, 6))
	for range 50 {
		r.Shuffle(len(terms), func(i, j int) { terms[i], terms[j] = terms[j], terms[i] })
		cut := r.IntN(len(terms))
		var a, b sum
		for i, v := range terms {
			if i < cut {
				a.add(v)
			} else {
				b.add(v)
			}
		}
		b.terms = sumBatch - 1
		b.add(0)
		a.merge(&b)
		a.add(2)
		if got, _ := a.value().Float64(); got != 0x1p-1074 {
			t.Fatalf("%v adds up to %v", terms, got)
		}
	}
	var s sum
	s.addProduct(0x1p30+1, 0x1p30+1)
	s.add(-0x1p60)
	if got, _ := s.value().Float64(); got != 0x1p31+1 {
		t.Errorf("the square lacks digits: %v", got)
	}
}

// What has no meaning is an error that names variable and row, counted over batches.
func TestRefusesWhatHasNoMeaning(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		kind        string
		predictions []float32
		columns     int64
		labels      []int64
		weights     []float32
		is          fault.Kind
		says        string
	}{
		{"auc", []float32{0.5, nan}, 1, []int64{0, 1}, nil, fault.NotFinite, `auc, variable "prediction"`},
		{"auc", []float32{0.5, inf}, 1, []int64{0, 1}, nil, fault.NotFinite, "row 4 of all"},
		{"auc", []float32{0.5, 0.5}, 1, []int64{0, 2}, nil, fault.InvalidArgument, `variable "label": invalid argument: got 2 in row 4 of all, want 0 or 1`},
		{"auc", []float32{0.5, 0.5}, 1, []int64{0, -1}, nil, fault.InvalidArgument, "row 4 of all"},
		{"auc", []float32{0.5, 0.5, 0.5}, 3, []int64{0}, nil, fault.ShapeMismatch, "3 scores in a row"},
		{"auc", []float32{0.5}, 1, []int64{0, 1}, nil, fault.ShapeMismatch, "one number for each of 1 rows"},
		{"auc", []float32{0.5}, 1, []int64{0}, []float32{nan}, fault.InvalidArgument, "a weight from 0 to 2^32"},
		{"auc", []float32{0.5}, 1, []int64{0}, []float32{-1}, fault.InvalidArgument, `"weight"`},
		{"log_loss", []float32{1.5}, 1, []int64{0}, nil, fault.InvalidArgument, "a probability, 0 to 1"},
		{"accuracy", []float32{0, 1, 2}, 3, []int64{3}, nil, fault.InvalidArgument, "a class from 0 to 2"},
		{"accuracy", []float32{7}, 1, []int64{1}, nil, fault.InvalidArgument, "a probability, 0 to 1"},
		{"f1", []float32{0.5}, 1, []int64{0}, []float32{inf}, fault.InvalidArgument, "a weight from 0 to 2^32"},
		{"r2", []float32{1, 2}, 2, []int64{0}, nil, fault.ShapeMismatch, "one number"},
	} {
		m, err := New(c.kind)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Add(floats(t, []float32{0.5, 0.25, 0.125}), ints(t, []int64{0, 1, 1}), nil); err != nil {
			t.Fatal(err)
		}
		var weights *tensor.Tensor
		if c.weights != nil {
			weights = floats(t, c.weights)
		}
		rows := int64(len(c.predictions)) / c.columns
		err = m.Add(floats(t, c.predictions, rows, c.columns), ints(t, c.labels), weights)
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v that says %q", c.kind, err, c.is, c.says)
		}
	}
	m, _ := New("mae")
	if err := m.Add(ints(t, []int64{1}), ints(t, []int64{1}), nil); !errors.Is(err, fault.TypeMismatch) {
		t.Errorf("a prediction of int64: %v", err)
	}
	if err := m.Add(nil, ints(t, []int64{1}), nil); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("a prediction of nil: %v", err)
	}
	huge, _ := tensor.FromSlice([]float64{1e101}, 1)
	if err := m.Add(huge, ints(t, []int64{1}), nil); !errors.Is(err, fault.TooLarge) {
		t.Errorf("a prediction of 1e101: %v", err)
	}
	auc, _ := New("auc")
	if err := m.Merge(auc); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("a merge of two kinds: %v", err)
	}
}

// A metric is asked for by name; mistakes say what there is.
func TestSpecs(t *testing.T) {
	good := map[string]Spec{
		"auc":              {Kind: "auc"},
		"auc=p,y":          {Kind: "auc", Prediction: "p", Label: "y"},
		"top-5=p.tmp,y,w":  {Kind: "top-5", Prediction: "p.tmp", Label: "y", Weight: "w"},
		"top-1000=a/b,c_0": {Kind: "top-1000", Prediction: "a/b", Label: "c_0"},
	}
	for text, want := range good {
		if got, err := ParseSpec(text); err != nil || got != want {
			t.Errorf("%s is %+v, %v", text, got, err)
		}
	}
	for text, says := range map[string]string{
		"aux":         `did you mean "auc"`,
		"":            "one of accuracy, auc",
		"auc=":        "auc=PREDICTION,LABEL",
		"auc=p":       "auc=PREDICTION,LABEL,WEIGHT",
		"auc=p,y,w,v": "auc=PREDICTION,LABEL",
		"auc=p,":      "auc=PREDICTION,LABEL",
		"top-0":       "top-K with K from 1 to 1000",
		"top-1001":    "such as top-5",
		"top-05":      "such as top-5",
	} {
		if _, err := ParseSpec(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}

// A set fetches each variable once, tells metrics of one kind apart, and merges.
func TestSet(t *testing.T) {
	specs := []Spec{{Kind: "auc", Prediction: "p", Label: "y"}, {Kind: "auc", Prediction: "p", Label: "y", Weight: "w"}, {Kind: "auc", Prediction: "q", Label: "y"},
		{Kind: "mae", Prediction: "p", Label: "y"}}
	whole, err := Of(specs...)
	if err != nil {
		t.Fatal(err)
	}
	if got := whole.Names(); !slices.Equal(got, []string{"p", "y", "w", "q"}) {
		t.Fatalf("names %v", got)
	}
	p, q, w, y := floats(t, []float32{0.25, 0.5, 0.75}), floats(t, []float32{3, 2, 1}), floats(t, []float32{1, 2, 3}), ints(t, []int64{0, 1, 1})
	fetched := []*tensor.Tensor{p, y, w, q}
	half, _ := Of(specs...)
	for _, s := range []*Set{whole, half} {
		if err := s.Add(fetched); err != nil {
			t.Fatal(err)
		}
	}
	if err := whole.Merge(half); err != nil {
		t.Fatal(err)
	}
	results, err := whole.Results()
	if err != nil {
		t.Fatal(err)
	}
	want := []Result{{Name: "auc(p,y)", Kind: "auc", Value: 1}, {Name: "auc(p,y,w)", Kind: "auc", Value: 1}, {Name: "auc(q)", Kind: "auc"}, {Name: "mae", Kind: "mae", Value: 1.0 / 3}}
	if !slices.Equal(results, want[:3]) && math.Abs(results[3].Value-want[3].Value) > 1e-15 || !slices.Equal(results[:3], want[:3]) {
		t.Errorf("results %+v, want %+v", results, want)
	}
	if err := whole.Add(fetched[:3]); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("three variables of four: %v", err)
	}
	if _, err := Of(specs[0], specs[0]); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("a metric twice: %v", err)
	}
	if _, err := Of(Spec{Kind: "auc"}); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("a metric without variables: %v", err)
	}
	if other, _ := Of(specs[0]); !errors.Is(whole.Merge(other), fault.InvalidArgument) {
		t.Error("sets of other metrics merge")
	}
}

// Each metric knows which of two values is the better one.
func TestBetter(t *testing.T) {
	for _, c := range []struct {
		metric      string
		value, than float64
		want        bool
	}{
		{"auc", 0.8, 0.7, true}, {"auc", 0.7, 0.7, false}, {"log_loss", 0.8, 0.7, false}, {"rmse", 0.1, 0.2, true}, {"calibration", 1.1, 0.8, true},
		{"calibration", 0.7, 1.1, false}, {"auc", math.NaN(), 0.1, false}, {"auc", 0.1, math.NaN(), true}, {"top-3", 0.2, 0.1, true},
	} {
		if Better(c.metric, c.value, c.than) != c.want {
			t.Errorf("%s: that %v is better than %v is not %v", c.metric, c.value, c.than, c.want)
		}
	}
}
