package edlcmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/dataset/schema"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
	"github.com/spf13/cobra"
)

// newDataLook returns the commands that look at data: show, stats and sample. All take tables, or record files.
func newDataLook(c *console) []*cobra.Command {
	show := &cobra.Command{
		Use:   "show FILE...",
		Short: "Say what tables or record files have: rows, columns or fields",
		Args:  cobra.MinimumNArgs(1),
	}
	showAs := outputFlag(show)
	show.RunE = func(cmd *cobra.Command, args []string) error { return showData(cmd.Context(), c, args, showAs.value) }
	stats := &cobra.Command{
		Use:   "stats FILE...",
		Short: "Read tables or record files to their end, and describe each column or field",
		Args:  cobra.MinimumNArgs(1),
	}
	statsAs := outputFlag(stats)
	stats.RunE = func(cmd *cobra.Command, args []string) error { return dataStats(cmd.Context(), c, args, statsAs.value) }
	var count int
	var seed uint64
	sample := &cobra.Command{
		Use:     "sample FILE...",
		Short:   "Print some rows of tables, or records, as JSON lines",
		Long:    `Print rows that are drawn at random, in the order of the files. Each set of N rows is as probable as any other. The same seed draws the same rows.`,
		Example: "  edl data sample clicks.csv --count 3\n  edl data sample 'data/train-00000-of-00001'",
		Args:    cobra.MinimumNArgs(1),
	}
	sample.Flags().IntVar(&count, "count", 10, "print `N` rows")
	sample.Flags().Uint64Var(&seed, "seed", 0, "another `N` draws other rows")
	sample.RunE = func(cmd *cobra.Command, args []string) error {
		if count < 1 || count > maxHeld {
			return fault.E(fault.InvalidArgument, fault.At("--count"), fault.Got(strconv.Itoa(count)), fault.Wantf("1 to %d", maxHeld))
		}
		return dataSample(cmd.Context(), c, args, count, rand.New(rand.NewPCG(seed, 0)))
	}
	return []*cobra.Command{show, stats, sample}
}

// areRecords reports whether all files are record files. A mixture is refused.
func areRecords(paths []string) (bool, error) {
	records := 0
	for _, path := range paths {
		if kind, err := kindOf(path); err == nil && kind == recordFile {
			records++
		}
	}
	if records > 0 && records < len(paths) {
		return false, fault.E(fault.InvalidArgument, fault.Got("tables and record files together"), fault.Want("one of the two"))
	}
	return records > 0, nil
}

func showData(ctx context.Context, c *console, paths []string, output string) error {
	records, err := areRecords(paths)
	if err != nil {
		return err
	}
	if records {
		var shards []shardReport
		for _, path := range paths {
			r, err := readRecords(ctx, path)
			if err != nil {
				return err
			}
			shards = append(shards, shardReport{path, r})
		}
		if output == "json" {
			return writeJSON(c.out, map[string]any{"records": shards})
		}
		return writeShards(c.out, shards, false)
	}
	rows, columns, err := summaries(ctx, c, paths)
	if err != nil {
		return err
	}
	if output == "json" {
		var names []string
		for _, s := range columns {
			names = append(names, s.Column)
		}
		return writeJSON(c.out, map[string]any{"rows": rows, "columns": names})
	}
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "COLUMN\tHAS\tWITHOUT A VALUE\tEXAMPLES")
	for _, s := range columns {
		var examples []string
		for _, f := range s.Frequent {
			examples = append(examples, f.Text)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\n", s.Column, hasOf(s), s.Missing, strings.Join(examples, ", "))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "%s, %s\n", count(int(rows), "row"), count(len(columns), "column"))
	return err
}

// hasOf says of what kind the values of a column are.
func hasOf(s *schema.Summary) string {
	switch {
	case s.Values == 0:
		return "nothing"
	case s.Numbers.N == s.Values:
		return "numbers"
	case s.Distinct < 0:
		return "texts"
	}
	return count(int(s.Distinct), "text")
}

func summaries(ctx context.Context, c *console, paths []string) (int64, []*schema.Summary, error) {
	tables, err := openTables(paths, schema.Open)
	if err != nil {
		return 0, nil, err
	}
	defer tables.close()
	defer tables.showProgress(c)()
	return schema.Summarize(ctx, tables)
}

// A statsRow is a column of a table, or a field of records. Its fields are those of the JSON form.
type statsRow struct {
	Name      string            `json:"name"`
	Type      string            `json:"type,omitempty"` // of a field
	Values    int64             `json:"values"`         // or elements
	Missing   int64             `json:"missing"`        // or not finite
	Numbers   int64             `json:"numbers"`
	Min       jsonNumber        `json:"min"`
	Mean      jsonNumber        `json:"mean"`
	Max       jsonNumber        `json:"max"`
	Deviation jsonNumber        `json:"deviation"`
	Distinct  *int64            `json:"distinct,omitempty"` // texts of a column, if they are no more than 100,000
	Frequent  []schema.Frequent `json:"frequent,omitempty"`
}

func (r *statsRow) take(m *schema.Moments) {
	r.Numbers, r.Min, r.Mean, r.Max, r.Deviation = m.N, jsonNumber(m.Min), jsonNumber(m.Mean), jsonNumber(m.Max), jsonNumber(m.Deviation())
}

func dataStats(ctx context.Context, c *console, paths []string, output string) error {
	records, err := areRecords(paths)
	if err != nil {
		return err
	}
	var rows []*statsRow
	var n int64
	if records {
		n, rows, err = recordStats(ctx, paths)
	} else {
		var columns []*schema.Summary
		n, columns, err = summaries(ctx, c, paths)
		for _, s := range columns {
			r := &statsRow{Name: s.Column, Values: s.Values, Missing: s.Missing, Frequent: s.Frequent}
			if s.Distinct >= 0 {
				r.Distinct = &s.Distinct
			}
			r.take(&s.Numbers)
			rows = append(rows, r)
		}
	}
	if err != nil {
		return err
	}
	if output == "json" {
		return writeJSON(c.out, map[string]any{"rows": n, "columns": rows})
	}
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tVALUES\tMISSING\tMIN\tMEAN\tMAX\tDEVIATION\tDISTINCT\tFREQUENT")
	for _, r := range rows {
		numbers := "-\t-\t-\t-"
		if r.Numbers > 0 {
			numbers = fmt.Sprintf("%.6g\t%.6g\t%.6g\t%.6g", float64(r.Min), float64(r.Mean), float64(r.Max), float64(r.Deviation))
		}
		distinct, frequent := "-", "-"
		if r.Distinct != nil {
			distinct = strconv.FormatInt(*r.Distinct, 10)
		}
		if len(r.Frequent) > 0 {
			frequent = fmt.Sprintf("%s (%d)", r.Frequent[0].Text, r.Frequent[0].Count)
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\t%s\n", strings.TrimSpace(r.Name+" "+r.Type), r.Values, r.Missing, numbers, distinct, frequent)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.out, count(int(n), map[bool]string{true: "record", false: "row"}[records]))
	return err
}

// eachRecord calls f with each record of files, in order.
func eachRecord(ctx context.Context, paths []string, f func(path string, tensors []*tensor.Tensor) error) error {
	for _, path := range paths {
		file, err := recordio.Open(path, recordio.Limits{})
		if err != nil {
			return inFile(path, err)
		}
		err = func() error {
			defer file.Close()
			records, err := file.Range(0, file.NumRecords())
			if err != nil {
				return err
			}
			for n := int64(0); ; n++ {
				if err := ctx.Err(); err != nil {
					return err
				}
				record, err := records.Next()
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err != nil {
					return err
				}
				tensors, err := dataset.DecodeRecord(record)
				if err == nil {
					err = f(path, tensors)
				}
				if err != nil {
					return inFile(fmt.Sprintf("%s, record %d", path, n), err)
				}
			}
		}()
		if err != nil {
			return err
		}
	}
	return nil
}

// fieldNames are the names of the fields of records: those of the schema beside a file that has as many, those of pictures beside the list of their classes, else their
// numbers.
func fieldNames(path string, n int) []string {
	if s, err := readSchema(filepath.Join(filepath.Dir(path), schemaFile)); err == nil && len(s.Fields()) == n {
		var names []string
		for _, f := range s.Fields() {
			names = append(names, f.Name)
		}
		return names
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(path), labelsFile)); err == nil && n == 2 {
		return []string{"image", "label"}
	}
	names := make([]string, n)
	for i := range names {
		names[i] = "field" + strconv.Itoa(i)
	}
	return names
}

func recordStats(ctx context.Context, paths []string) (n int64, rows []*statsRow, err error) {
	var numbers []*schema.Moments
	err = eachRecord(ctx, paths, func(path string, tensors []*tensor.Tensor) error {
		if n++; n == 1 {
			for i, name := range fieldNames(path, len(tensors)) {
				rows, numbers = append(rows, &statsRow{Name: name, Type: tensors[i].DType().String()}), append(numbers, &schema.Moments{})
			}
		}
		if len(tensors) != len(rows) {
			return fault.E(fault.InvalidArgument, fault.Gotf("%d fields", len(tensors)), fault.Wantf("%d, as the first record has", len(rows)))
		}
		for i, t := range tensors {
			for j := range t.Len() {
				if v := float(t, j); math.IsNaN(v) || math.IsInf(v, 0) {
					rows[i].Missing++
				} else {
					numbers[i].Add(v)
				}
			}
			rows[i].Values += int64(t.Len())
		}
		return nil
	})
	for i, r := range rows {
		r.take(numbers[i])
	}
	return n, rows, err
}

// A reservoir keeps lines that are drawn at random: each set of its size is as probable as any other (J. S. Vitter, Random sampling with a reservoir, 1985, algorithm R).
type reservoir struct {
	random *rand.Rand
	most   int
	seen   int
	lines  []drawn
}

type drawn struct {
	at   int
	line string
}

// add offers the next line, which is made only if it is drawn.
func (r *reservoir) add(line func() (string, error)) error {
	at := len(r.lines)
	if r.seen++; at == r.most {
		if at = r.random.IntN(r.seen); at >= r.most {
			return nil
		}
	}
	text, err := line()
	if err != nil {
		return err
	}
	if at == len(r.lines) {
		r.lines = append(r.lines, drawn{})
	}
	r.lines[at] = drawn{r.seen, text}
	return nil
}

func dataSample(ctx context.Context, c *console, paths []string, most int, random *rand.Rand) error {
	records, err := areRecords(paths)
	if err != nil {
		return err
	}
	r := &reservoir{random: random, most: most}
	if records {
		var names []string
		err = eachRecord(ctx, paths, func(path string, tensors []*tensor.Tensor) error {
			if len(names) != len(tensors) {
				names = fieldNames(path, len(tensors))
			}
			return r.add(func() (string, error) { return recordLine(names, tensors) })
		})
	} else {
		err = sampleTables(ctx, paths, r)
	}
	if err != nil {
		return err
	}
	slices.SortFunc(r.lines, func(a, b drawn) int { return a.at - b.at })
	for _, d := range r.lines {
		if _, err := fmt.Fprintln(c.out, d.line); err != nil {
			return err
		}
	}
	return nil
}

func sampleTables(ctx context.Context, paths []string, r *reservoir) error {
	tables, err := openTables(paths, schema.Open)
	if err != nil {
		return err
	}
	defer tables.close()
	for _, t := range tables {
		for {
			if err := ctx.Err(); err != nil {
				return err
			}
			row, err := t.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				return err
			}
			if err := r.add(func() (string, error) { return rowLine(t.Columns(), row) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// rowLine is a row as one JSON object with its members in the order of the columns.
func rowLine(columns []string, row schema.Row) (string, error) {
	values := make([]any, len(columns))
	for i, cell := range row.Cells {
		switch cell.Kind {
		case schema.Text:
			values[i] = cell.Text
		case schema.List:
			values[i] = cell.List
		}
	}
	return objectLine(columns, values)
}

// recordLine is a record as one JSON object: the elements of each field.
func recordLine(names []string, tensors []*tensor.Tensor) (string, error) {
	values := make([]any, len(tensors))
	for i, t := range tensors {
		if values[i] = (jsonElements{t}); t.Len() == 1 {
			values[i] = scalarOf(t, 0)
		}
	}
	return objectLine(names, values)
}

func objectLine(names []string, values []any) (string, error) {
	var b strings.Builder
	for i, name := range names {
		b.WriteByte("{,"[min(i, 1)])
		for j, value := range []any{name, values[i]} {
			if j > 0 {
				b.WriteByte(':')
			}
			var text bytes.Buffer
			if err := writeJSON(&text, value); err != nil {
				return "", err
			}
			b.Write(bytes.TrimSpace(text.Bytes()))
		}
	}
	return b.String() + "}", nil
}
