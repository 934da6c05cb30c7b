package main

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/edl-go/edl/dataset/convert"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

func newDataCSV(c *console) *cobra.Command {
	var (
		f        dataFlags
		options  convert.CSVOptions
		noHeader bool
		comma    string
		test     int
	)
	cmd := &cobra.Command{
		Use:   "csv FILE -o DIR",
		Short: "Convert a table of numbers",
		Long: `Convert a table of numbers: each row becomes a record of features float32[columns] and a label [1].
Columns are named as in the first row, or numbered from 0 with --no-header.`,
		Example: "  edl data csv iris.csv -o data --label species --test 30",
		Args:    cobra.ExactArgs(1),
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&options.Label, "label", "", "column to predict (default: the last one)")
	flags.StringSliceVar(&options.Features, "features", nil, "columns to predict from (default: all others)")
	flags.BoolVar(&noHeader, "no-header", false, "the first row is data")
	flags.StringVar(&comma, "comma", ",", "character between columns")
	flags.IntVar(&test, "test", 0, "hold the last so many rows back as a test set")
	labelType := choiceFlag(cmd, "label-type", "int64 for classes, float32 for numbers", tensor.Int64.String(), tensor.Float32.String())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, size := utf8.DecodeRuneInString(comma)
		if size == 0 || size != len(comma) {
			return fault.E(fault.InvalidArgument, fault.At("--comma"), fault.Got(fault.Quote(comma)), fault.Want("one character"))
		}
		options.Comma, options.Header = r, !noHeader
		options.LabelDType, _ = tensor.ParseDType(labelType.value)
		return f.convertFile(cmd.Context(), c, args[0], test, options)
	}
	return cmd
}

// convertFile converts a CSV file, of which the last test rows go to a test set.
func (f *dataFlags) convertFile(ctx context.Context, c *console, path string, test int, options convert.CSVOptions) error {
	file, _, err := openRegular(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return f.writeSplit(c, path, test, func(to *heldBack) error {
		_, err := convert.CSV(ctx, file, to, options)
		return inFile(path, err)
	})
}

// inFile names the file that a converter, which only sees a stream, found something wrong with.
func inFile(path string, err error) error {
	var f *fault.Fault
	if !errors.As(err, &f) {
		return fileFault(path, err)
	}
	if strings.HasPrefix(f.Where, path) {
		return f // which names it already
	}
	return f.In(path, ", ")
}
