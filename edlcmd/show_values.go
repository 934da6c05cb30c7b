package edlcmd

import (
	"context"
	"fmt"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/edl-go/edl/tensor"
)

// A valuesReport is a variable with its elements. Its fields are those of the JSON form.
type valuesReport struct {
	Name string `json:"name"`
	jsonTensor
	Min       scalar     `json:"min"`
	Mean      jsonNumber `json:"mean"`
	Max       scalar     `json:"max"`
	Deviation jsonNumber `json:"deviation"`
	Zeros     int        `json:"zeros"`
	NotFinite int        `json:"not_finite"`
	Histogram []bin      `json:"histogram"`
}

// A bin counts the elements from From to less than To. That of the largest element has it, too.
type bin struct {
	From  jsonNumber `json:"from"`
	To    jsonNumber `json:"to"`
	Count int        `json:"count"`
}

// showValues shows a variable of what path has: its elements, how they are distributed, and a histogram.
func showValues(ctx context.Context, c *console, path, name, output string) error {
	s, err := openStored(ctx, path)
	if err != nil {
		return err
	}
	defer s.close()
	t, err := s.find(ctx, name)
	if err != nil {
		return err
	}
	r := reportValues(name, t)
	if output == "json" {
		return writeJSON(c.out, r)
	}
	fmt.Fprintf(c.out, "%s %s%s\nmin %s  mean %.6g  max %s  deviation %.6g  zeros %d  not finite %d\n\n", name, t, textLoD(t.LoD()), r.Min, float64(r.Mean), r.Max,
		float64(r.Deviation), r.Zeros, r.NotFinite)
	if err := writeHistogram(c, r.Histogram); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "\n%s\n", textTensor(t))
	return err
}

func reportValues(name string, t *tensor.Tensor) valuesReport {
	of := describeTensor(t)
	r := valuesReport{Name: name, jsonTensor: newJSONTensor(t), Min: of.Min, Mean: of.Mean, Max: of.Max, NotFinite: of.NotFinite}
	squares, n := 0.0, 0
	for i := range t.Len() {
		v := float(t, i)
		if v == 0 {
			r.Zeros++
		}
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			squares += (v - float64(of.Mean)) * (v - float64(of.Mean))
			n++
		}
	}
	if n > 0 {
		r.Deviation = jsonNumber(math.Sqrt(squares / float64(n)))
	}
	r.Histogram = histogram(t)
	return r
}

// mostBins is how many bins a histogram has, if its elements are not all equal.
const mostBins = 16

// histogram counts the finite elements in bins of equal width from the least to the largest. Equal elements have one bin.
func histogram(t *tensor.Tensor) []bin {
	least, largest, n := math.Inf(1), math.Inf(-1), 0
	for i := range t.Len() {
		if v := float(t, i); !math.IsNaN(v) && !math.IsInf(v, 0) {
			least, largest, n = min(least, v), max(largest, v), n+1
		}
	}
	if n == 0 {
		return []bin{}
	}
	if least == largest {
		return []bin{{jsonNumber(least), jsonNumber(largest), n}}
	}
	width := largest/mostBins - least/mostBins // the difference itself may not be finite
	bins := make([]bin, mostBins)
	for i := range bins {
		bins[i].From, bins[i].To = jsonNumber(least+float64(i)*width), jsonNumber(least+float64(i+1)*width)
	}
	bins[mostBins-1].To = jsonNumber(largest)
	for i := range t.Len() {
		if v := float(t, i); !math.IsNaN(v) && !math.IsInf(v, 0) {
			at := int(v/width - least/width)
			bins[min(max(at, 0), mostBins-1)].Count++
		}
	}
	return bins
}

// barWidth is the number of characters of the longest bar.
const barWidth = 40

func writeHistogram(c *console, bins []bin) error {
	most := 1
	for _, b := range bins {
		most = max(most, b.Count)
	}
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FROM\tTO\tELEMENTS")
	for _, b := range bins {
		bar := (b.Count*barWidth + most - 1) / most // at least one character where there is an element
		fmt.Fprintf(t, "%.4g\t%.4g\t%d\t|%s\n", float64(b.From), float64(b.To), b.Count, strings.Repeat("#", bar))
	}
	return t.Flush()
}
