package edlcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
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
	showAs, showed := outputFlag(show), addLooked(show)
	show.RunE = func(cmd *cobra.Command, args []string) error {
		return showData(cmd.Context(), c, showed.of(args), showAs.value)
	}
	stats := &cobra.Command{
		Use:   "stats FILE...",
		Short: "Read tables or record files to their end, and describe each column or field",
		Args:  cobra.MinimumNArgs(1),
	}
	statsAs, described := outputFlag(stats), addLooked(stats)
	stats.RunE = func(cmd *cobra.Command, args []string) error {
		return dataStats(cmd.Context(), c, described.of(args), statsAs.value)
	}
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
	drawn := addLooked(sample)
	sample.RunE = func(cmd *cobra.Command, args []string) error {
		if count < 1 || count > maxHeld {
			return fault.E(fault.InvalidArgument, fault.At("--count"), fault.Got(strconv.Itoa(count)), fault.Wantf("1 to %d", maxHeld))
		}
		return dataSample(cmd.Context(), c, drawn.of(args), count, rand.New(rand.NewPCG(seed, 0)))
	}
	return []*cobra.Command{show, stats, sample}
}

// looked are the files that a command looks at.
type looked struct {
	paths   []string
	unnamed bool // tables of CSV or TSV have no names of columns
}

// addLooked gives a command the flag that says how it reads tables.
func addLooked(cmd *cobra.Command) *looked {
	l := &looked{}
	cmd.Flags().BoolVar(&l.unnamed, "no-header", false, unnamedUsage)
	return l
}

// of returns what the flag says, of the files of a command line.
func (l *looked) of(paths []string) looked { return looked{paths, l.unnamed} }

// tables opens the files, which are tables.
func (l looked) tables() (openedTables, error) {
	if l.unnamed {
		return openTables(l.paths, schema.OpenUnnamed)
	}
	return openTables(l.paths, schema.Open)
}

// areRecords reports whether all files are record files. A mixture is refused, and so is a flag that says how to read tables where there are none.
func (l looked) areRecords() (bool, error) {
	records := 0
	for _, path := range l.paths {
		if kind, err := kindOf(path); err == nil && kind == recordFile {
			records++
		}
	}
	switch {
	case records > 0 && records < len(l.paths):
		return false, fault.E(fault.InvalidArgument, fault.Got("tables and record files together"), fault.Want("one of the two"))
	case records > 0 && l.unnamed:
		return false, fault.E(fault.InvalidArgument, fault.At("--no-header"), fault.Got("record files, which have no rows of names"), fault.Want("tables of CSV or TSV"))
	}
	return records > 0, nil
}

func showData(ctx context.Context, c *console, files looked, output string) error {
	records, err := files.areRecords()
	if err != nil {
		return err
	}
	if records {
		var shards []shardReport
		for _, path := range files.paths {
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
	rows, columns, err := summaries(ctx, c, files)
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

func summaries(ctx context.Context, c *console, files looked) (int64, []*schema.Summary, error) {
	tables, err := files.tables()
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

func dataStats(ctx context.Context, c *console, files looked, output string) error {
	records, err := files.areRecords()
	if err != nil {
		return err
	}
	var rows []*statsRow
	var n int64
	if records {
		n, rows, err = recordStats(ctx, files.paths)
	} else {
		var columns []*schema.Summary
		n, columns, err = summaries(ctx, c, files)
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
	if s, err := schema.Load(filepath.Join(filepath.Dir(path), schemaFile)); err == nil && len(s.Fields()) == n {
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
