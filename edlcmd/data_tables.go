package edlcmd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/edl-go/edl/dataset/schema"
	"github.com/edl-go/edl/executor/export"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
	"github.com/spf13/cobra"
)

// schemaFile is the schema beside the records that it has made, and beside a model of them: who serves the model encodes with it.
const schemaFile = export.SchemaFile

// unnamedUsage describes --no-header of the commands that read tables without a schema.
const unnamedUsage = "the first row of CSV or TSV has no names: the columns are c1, c2 and so on"

func newDataInfer(c *console) *cobra.Command {
	var (
		options  schema.InferOptions
		split    schema.Split
		from, to string
		unnamed  bool
	)
	cmd := &cobra.Command{
		Use:   "infer TABLE...",
		Short: "Propose a schema for tables: what becomes of each column",
		Long: `Read tables to their end (CSV, TSV, JSON lines, also with .gz, Parquet) and print a schema for them: numbers scaled by mean and deviation, texts as
categories or hashes, dates as their parts. Read it, change it, and give it to "edl data table". With --schema FILE the columns of FILE stay as they are, and only what
they learn from data is learned anew: statistics, and vocabularies that are empty. Rows that --test, --split-by or --split-after keep for the test teach nothing.`,
		Example: "  edl data infer clicks.csv --label clicked --test 0.2 -o schema.yaml\n  edl data table clicks.csv --schema schema.yaml -o data",
		Args:    cobra.MinimumNArgs(1),
	}
	flags := cmd.Flags()
	flags.StringVar(&options.Label, "label", "", "`COLUMN` to predict (default: the last one); none: no column")
	flags.Var(&columnTypes{&options.Types}, "type", "`TYPE=COLUMN,...` says what columns are, whatever they look like; c* is each column whose name begins with c")
	flags.BoolVar(&unnamed, "no-header", false, unnamedUsage)
	flags.StringVar(&from, "schema", "", "keep the columns of the schema `FILE`, and learn what they need")
	flags.StringVarP(&to, "out", "o", "", "write the schema to `FILE`, which it replaces; - prints it, as without the flag")
	flags.Float64Var(&split.Test, "test", 0, "`SHARE` of the rows for the test, such as 0.2, chosen by a hash of the row")
	flags.StringVar(&split.By, "split-by", "", "rows with the same value of `COLUMN` stay together: all for training, or all for the test")
	flags.StringVar(&split.After, "split-after", "", "rows whose --split-by is `WHEN` or later are the test: a date, or a number")
	flags.Uint64Var(&split.Seed, "seed", 0, "another `N` gives another test set")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if split != (schema.Split{}) {
			options.Split = &split
		}
		if from != "" {
			if err := refuseIdle(flags, []string{"label", "type", "no-header", "test", "split-by", "split-after", "seed"}, "a schema that says it", "no --schema"); err != nil {
				return err
			}
			var err error
			if options.From, err = schema.Load(from); err != nil {
				return err
			}
		} else if split.Test == 0 && split.After == "" && options.Split != nil {
			return fault.E(fault.InvalidArgument, fault.Got("--split-by or --seed alone"), fault.Want("--test SHARE, or --split-after WHEN, too"))
		}
		open := schema.Open
		if unnamed {
			open = schema.OpenUnnamed
		} else if options.From != nil {
			open = options.From.Open
		}
		tables, err := openTables(args, open)
		if err != nil {
			return err
		}
		defer tables.close()
		stop := tables.showProgress(c)
		s, err := schema.Infer(cmd.Context(), tables, options)
		stop()
		if err != nil {
			return err
		}
		var text bytes.Buffer
		if err := s.Write(&text); err != nil {
			return err
		}
		if left := leftOut(s); len(left) > 0 && from == "" {
			fmt.Fprintf(c.err, "left out, since they have one value, none, or another one in nearly each row: %s\n", shortList(left))
		}
		if to == "" || to == "-" {
			_, err := c.out.Write(text.Bytes())
			return err
		}
		if err := writeLines(to, schemaLines(&text)); err != nil {
			return err
		}
		fmt.Fprintf(c.out, "%d columns in %s; read it, and then: edl data table %s --schema %s -o DIR\n", len(s.Columns), to, strings.Join(args, " "), to)
		return nil
	}
	return cmd
}

func newDataTable(c *console) *cobra.Command {
	var (
		f    dataFlags
		from string
	)
	cmd := &cobra.Command{
		Use:   "table TABLE... --schema FILE -o DIR",
		Short: "Convert tables by a schema",
		Long: `Convert tables (CSV, TSV, JSON lines, also with .gz, Parquet) by a schema, as "edl data infer" proposes it. Records are in the order of the rows. The schema says which
rows are the test set. It is copied to DIR, as schema.yaml, for those who use the model: rows must be encoded there as they were for training. The command prints the fields of
a record as layers.OpenDataset takes them.`,
		Example: "  edl data infer clicks.csv --label clicked --test 0.2 -o schema.yaml\n  edl data table clicks.csv --schema schema.yaml -o data",
		Args:    cobra.MinimumNArgs(1),
	}
	f.add(cmd)
	cmd.Flags().StringVar(&from, "schema", "", "`FILE` that says what becomes of each column")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if from == "" {
			return fault.E(fault.InvalidArgument, fault.Got("no schema"), fault.Want("--schema FILE"), fault.Hintf("\"edl data infer %s -o schema.yaml\" proposes one", args[0]))
		}
		s, err := schema.Load(from)
		if err != nil {
			return err
		}
		tables, err := openTables(args, s.Open)
		if err != nil {
			return err
		}
		defer tables.close()
		names := []string{trainSet}
		if s.Split != nil {
			names = append(names, testSet)
		}
		err = f.writeDatasets(c, strings.Join(args, " "), names, func(to []*datasetFile) error {
			test := to[0]
			if len(to) > 1 {
				test = to[1]
			}
			stop := tables.showProgress(c)
			err := schema.Convert(cmd.Context(), s, tables, runtime.GOMAXPROCS(0), to[0].Write, test.Write)
			if stop(); err != nil {
				return err
			}
			if to[0].records == 0 && test.records > 0 {
				return fault.E(fault.InvalidArgument, fault.At(from), fault.Gotf("a split that keeps all %d rows for the test", test.records), fault.Want("rows for training, too"))
			}
			return nil
		})
		if err != nil {
			return err
		}
		var text bytes.Buffer
		if err := s.Write(&text); err != nil {
			return err
		}
		if err := writeLines(filepath.Join(f.dir, schemaFile), schemaLines(&text)); err != nil {
			return err
		}
		fmt.Fprintln(c.out, "fields of a record, for layers.OpenDataset:")
		for _, field := range s.Fields() {
			fmt.Fprintf(c.out, "  %s\n", fieldInGo(field))
		}
		return nil
	}
	return cmd
}

// columnTypes is the flag --type.
type columnTypes struct{ types *[]schema.ColumnType }

// Set implements pflag.Value.
func (f *columnTypes) Set(text string) error {
	name, columns, ok := strings.Cut(text, "=")
	if !ok || columns == "" {
		return fault.E(fault.InvalidArgument, fault.Got(fault.Quote(text)), fault.Want("TYPE=COLUMN,..., such as key=user,film"))
	}
	*f.types = append(*f.types, schema.ColumnType{Type: schema.Type(name), Columns: strings.Split(columns, ","), Where: "--type " + text})
	return nil
}

// String implements pflag.Value.
func (f *columnTypes) String() string { return "" }

// Type implements pflag.Value.
func (f *columnTypes) Type() string { return "TYPE=COLUMN,..." }

// leftOut names the columns that become nothing.
func leftOut(s *schema.Schema) (names []string) {
	for i := range s.Columns {
		if s.Columns[i].Type == schema.Skip {
			names = append(names, s.Columns[i].Name)
		}
	}
	return names
}

// fieldInGo is a field as a program in Go declares it.
func fieldInGo(f schema.Field) string {
	options := []string{fmt.Sprintf("%q", f.Name)}
	dims := make([]string, len(f.Dims))
	for i, d := range f.Dims {
		dims[i] = strconv.FormatInt(d, 10)
	}
	options = append(options, "layers.Dims("+strings.Join(dims, ", ")+")")
	if f.DType == tensor.Int64 {
		options = append(options, "layers.DType(tensor.Int64)")
	}
	if f.LoDLevel > 0 {
		options = append(options, "layers.LoD(1)")
	}
	line := "layers.Field(" + strings.Join(options, ", ") + "),"
	switch {
	case f.Values > 0 && f.Role == schema.Label:
		line += fmt.Sprintf(" // %d classes", f.Values)
	case f.Values > 0:
		line += fmt.Sprintf(" // %d values: layers.Embedding(..., %d, WIDTH)", f.Values, f.Values)
	case f.Type == schema.Key:
		line += " // keys: layers.SparseEmbedding(..., ROWS, WIDTH)"
	case f.DType == tensor.Int64:
		line += " // whole numbers: layers.Cast(..., tensor.Float32) to compute with them"
	case len(f.Columns) > 1:
		line += " // " + shortList(f.Columns)
	}
	return line
}

// shortList names the first of several names.
func shortList(names []string) string {
	const most = 8
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(", and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// openedTables are tables that one command reads one after another.
type openedTables []*schema.Table

func openTables(paths []string, open func(*os.File, int64) (*schema.Table, error)) (tables openedTables, err error) {
	for _, path := range paths {
		file, size, err := openRegular(path)
		if err != nil {
			tables.close()
			return nil, err
		}
		t, err := open(file, size)
		if err != nil {
			tables.close()
			return nil, err
		}
		tables = append(tables, t)
	}
	return tables, nil
}

func (t openedTables) close() {
	for _, table := range t {
		_ = table.Close() // only read
	}
}

// schemaLines are the lines of a schema file.
func schemaLines(text *bytes.Buffer) []string {
	return strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
}
