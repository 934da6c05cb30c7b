package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// A tensorReport is one tensor of a parameter file. The figures are over finite elements; they are 0 when there is none.
type tensorReport struct {
	DType     string     `json:"dtype"`
	Dims      []int64    `json:"dims"`
	LoD       [][]int64  `json:"lod,omitempty"`
	Min       jsonNumber `json:"min"`
	Mean      jsonNumber `json:"mean"`
	Max       jsonNumber `json:"max"`
	NotFinite int        `json:"not_finite"`
}

// showTensors lists the tensors of a file: one, or those that were saved together.
func showTensors(c *console, path, output string) error {
	reports, err := readTensors(path)
	if err != nil {
		return err
	}
	if output == "json" {
		return writeJSON(c.out, struct {
			Tensors []tensorReport `json:"tensors"`
		}{reports})
	}
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TENSOR\tMIN\tMEAN\tMAX\tNOT FINITE")
	for _, r := range reports {
		fmt.Fprintf(t, "%s%v\t%.6g\t%.6g\t%.6g\t%d\n", r.DType, r.Dims, float64(r.Min), float64(r.Mean), float64(r.Max), r.NotFinite)
	}
	return t.Flush()
}

func readTensors(path string) ([]tensorReport, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// No tensor is larger than the file, so a stream that lies about its size is refused before it is read.
	limits := tensor.Limits{Bytes: size}
	r := bufio.NewReaderSize(f, 1<<20)
	var reports []tensorReport
	for {
		if _, err := r.Peek(1); errors.Is(err, io.EOF) {
			return reports, nil
		}
		t, err := tensor.Read(r, limits)
		if err != nil {
			return nil, inFile(fmt.Sprintf("%s, tensor %d", path, len(reports)), asCorrupt(err))
		}
		reports = append(reports, describeTensor(t))
	}
}

// asCorrupt gives an error of a decoder without a kind the kind of bad bytes.
func asCorrupt(err error) error {
	if fault.KindOf(err) == fault.Internal {
		return fault.Wrap(fault.Corrupt, "", err)
	}
	return err
}

func describeTensor(t *tensor.Tensor) tensorReport {
	report := newJSONTensor(t)
	r := tensorReport{DType: report.DType, Dims: report.Dims, LoD: t.LoD()}
	least, most, sum, n := math.Inf(1), math.Inf(-1), 0.0, 0
	for i := range t.Len() {
		v := float(t, i)
		if math.IsNaN(v) || math.IsInf(v, 0) {
			r.NotFinite++
			continue
		}
		least, most, sum, n = min(least, v), max(most, v), sum+v, n+1
	}
	if n > 0 {
		r.Min, r.Mean, r.Max = jsonNumber(least), jsonNumber(sum/float64(n)), jsonNumber(most)
	}
	return r
}
