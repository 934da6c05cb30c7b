package edlcmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// A recordsReport is what a record file holds.
type recordsReport struct {
	Layout  string        `json:"layout"`
	Bytes   int64         `json:"bytes"`
	Footer  int64         `json:"footer_bytes"` // 0: the layout has none
	Records int64         `json:"records"`
	Chunks  []chunkReport `json:"chunks"`
	// Fields are the tensors of the first record; null when records are not training records.
	Fields []fieldReport `json:"fields"`
}

type (
	chunkReport struct {
		Offset     int64  `json:"offset"`
		Records    int64  `json:"records"`
		Bytes      int64  `json:"bytes"`     // of the payload as stored
		Raw        int64  `json:"raw_bytes"` // when decompressed; 0 where the layout does not tell
		Compressor string `json:"compressor"`
	}
	fieldReport struct {
		DType  string  `json:"dtype"`
		Dims   []int64 `json:"dims"` // of one row, if records are sequences
		Levels int     `json:"lod_levels,omitempty"`
	}
)

// String names type, dims and LoD levels, as errors about records do.
func (f fieldReport) String() string {
	dtype, _ := tensor.ParseDType(f.DType)
	return dataset.Field{DType: dtype, Dims: f.Dims, LoDLevel: f.Levels}.String()
}

func showRecords(ctx context.Context, c *console, path, output string) error {
	report, err := readRecords(ctx, path)
	if err != nil {
		return err
	}
	if output == "json" {
		return writeJSON(c.out, report)
	}
	fmt.Fprintf(c.out, "records %d  chunks %d  layout %s", report.Records, len(report.Chunks), report.Layout)
	if report.Footer > 0 {
		fmt.Fprintf(c.out, "  footer %s", humanBytes(report.Footer))
	}
	fmt.Fprintln(c.out)
	for i, f := range report.Fields {
		fmt.Fprintf(c.out, "field %d  %v\n", i, f)
	}
	if report.Fields == nil && report.Records > 0 {
		fmt.Fprintln(c.out, "records are not lists of tensors")
	}
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CHUNK\tOFFSET\tRECORDS\tSTORED\tRAW\tCOMPRESSOR")
	for i, chunk := range report.Chunks {
		raw := "-"
		if chunk.Raw > 0 {
			raw = humanBytes(chunk.Raw)
		}
		fmt.Fprintf(t, "%d\t%d\t%d\t%s\t%s\t%s\n", i, chunk.Offset, chunk.Records, humanBytes(chunk.Bytes), raw, chunk.Compressor)
	}
	return t.Flush()
}

// readRecords reads every record, so that a file that is shown is known to be sound.
func readRecords(ctx context.Context, path string) (recordsReport, error) {
	f, err := recordio.Open(path, recordio.Limits{})
	if err != nil {
		return recordsReport{}, inFile(path, err)
	}
	defer f.Close()
	report := recordsReport{Layout: f.Layout.String(), Bytes: f.Bytes, Footer: f.FooterBytes(), Records: f.NumRecords(), Chunks: []chunkReport{}}
	for _, chunk := range f.Chunks {
		report.Chunks = append(report.Chunks, chunkReport{chunk.Offset, chunk.Records, chunk.StoredBytes, chunk.RawBytes, chunk.Compressor.String()})
	}
	records, err := f.Range(0, report.Records)
	if err != nil {
		return recordsReport{}, err
	}
	for i := range report.Records {
		if err := ctx.Err(); err != nil {
			return recordsReport{}, err
		}
		record, err := records.Next()
		if err != nil {
			return recordsReport{}, err
		}
		if i == 0 {
			report.Fields = fieldsOf(record)
		}
	}
	return report, nil
}

// fieldsOf describes the tensors of a training record, nil for a record of another form.
func fieldsOf(record []byte) []fieldReport {
	streams, err := dataset.ParseRecord(record, nil)
	if err != nil {
		return nil
	}
	fields := make([]fieldReport, len(streams))
	for i, s := range streams {
		fields[i] = fieldReport{s.DType.String(), append([]int64{}, s.Dims...), len(s.LoD)}
		if len(s.LoD) > 0 {
			fields[i].Dims = fields[i].Dims[1:]
		}
	}
	return fields
}

// A tensorReport is one tensor of a parameter file. The figures are over finite elements; they are 0 when there is none.
type tensorReport struct {
	DType     string     `json:"dtype"`
	Dims      []int64    `json:"dims"`
	LoD       [][]int64  `json:"lod,omitempty"`
	Min       scalar     `json:"min"`
	Mean      jsonNumber `json:"mean"`
	Max       scalar     `json:"max"`
	NotFinite int        `json:"not_finite"`
	bytes     int64      // of the elements
}

// row returns the cells of a table: tensor, least, mean and largest element, and how many are not finite.
func (r *tensorReport) row() string {
	return fmt.Sprintf("%s%v\t%s\t%.6g\t%s\t%d", r.DType, r.Dims, r.Min, float64(r.Mean), r.Max, r.NotFinite)
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
		fmt.Fprintln(t, r.row())
	}
	return t.Flush()
}

// mostShown bounds the elements of a tensor in short form that is shown, in bytes.
const mostShown = 64 << 30

func readTensors(path string) ([]tensorReport, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// No tensor is larger than the file, so a stream that lies about its size is refused before it is read.
	// One in short form has room for more than that.
	limits := tensor.Limits{Bytes: size, Short: mostShown}
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
	r := tensorReport{DType: report.DType, Dims: report.Dims, LoD: t.LoD(), bytes: int64(t.Len() * t.DType().Size())}
	sum, n := 0.0, 0
	for i := range t.Len() {
		v := float(t, i)
		if math.IsNaN(v) || math.IsInf(v, 0) {
			r.NotFinite++
			continue
		}
		x := scalarOf(t, i)
		if n == 0 || x.less(r.Min) {
			r.Min = x
		}
		if n == 0 || r.Max.less(x) {
			r.Max = x
		}
		sum, n = sum+v, n+1
	}
	if n > 0 {
		r.Mean = jsonNumber(sum / float64(n))
	}
	return r
}
