package edlcmd

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/edl-go/edl/dataset/convert"
	"github.com/edl-go/edl/dataset/digits"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
	"github.com/spf13/cobra"
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
Columns are named as in the first row, or numbered from 0 with --no-header. Columns of --keys become keys of tables that
grow: a whole number is its own key, any other text has a hash (XXH64). -1 is no key, nor is an empty cell. A record then is features, an int64[1] for each
column of --keys in their order, and a label; without features where all other columns are keys.`,
		Example: "  edl data csv iris.csv -o data --label species --test 30\n  edl data csv seen.csv -o data --keys user,film --label rating --label-type float32",
		Args:    cobra.ExactArgs(1),
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&options.Label, "label", "", "`COLUMN` to predict (default: the last one)")
	flags.StringSliceVar(&options.Features, "features", nil, "columns `NAME,...` to predict from (default: all others)")
	flags.StringSliceVar(&options.Keys, "keys", nil, "columns `NAME,...` of texts or ids that become keys of tables that grow, a field each")
	flags.BoolVar(&noHeader, "no-header", false, "the first row is data")
	flags.StringVar(&comma, "comma", ",", "`CHARACTER` between columns")
	flags.IntVar(&test, "test", 0, "hold the last `N` rows back as a test set")
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

// convertFile converts a CSV file. Its last test rows go to a test set.
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

func newDataDigits(c *console) *cobra.Command {
	var (
		f           dataFlags
		count, test int
		seed        uint64
		dims        string
	)
	cmd := &cobra.Command{
		Use:   "digits -o DIR",
		Short: "Render digits from Go's own fonts, in the shape of MNIST",
		Long: `Render digits from Go's own fonts, in the shape of MNIST: images of 28x28 pixels from -1 to 1, and labels
0 to 9. The same seed gives the same images on every machine; test images are the ones that follow the training images.`,
		Args: cobra.NoArgs,
	}
	f.add(cmd)
	cmd.Flags().IntVar(&count, "count", 6000, "write `N` training images")
	cmd.Flags().IntVar(&test, "test", 1000, "write `N` test images")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "draw from the seed `N`")
	dimsFlag(cmd, &dims)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case count < 1:
			return tooFew("--count", int64(count))
		case test < 0:
			return fault.E(fault.InvalidArgument, fault.At("--test"), fault.Got(strconv.Itoa(test)), fault.Want("0 or more"))
		}
		shape, err := parseDims(dims)
		if err != nil {
			return err
		}
		return f.writeDatasets(c, "--count", []string{trainSet, testSet}, func(to []*datasetFile) error {
			options := digits.Options{Seed: seed, Count: count, Dims: shape}
			if err := digits.Write(cmd.Context(), to[0], options); err != nil {
				return err
			}
			options.First, options.Count = count, test
			return digits.Write(cmd.Context(), to[1], options)
		})
	}
	return cmd
}

func dimsFlag(cmd *cobra.Command, dims *string) {
	cmd.Flags().StringVar(dims, "dims", "784", "`DIMS` of an image: 784 for a vector, 1,28,28 for a picture with a channel")
}

// parseDims reads extents between commas.
func parseDims(s string) ([]int64, error) {
	var dims []int64
	for field := range strings.SplitSeq(s, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(field), 10, 64)
		if err != nil || n < 1 {
			return nil, fault.E(fault.InvalidArgument, fault.At("--dims"), fault.Got(fault.Quote(s)),
				fault.Wantf("extents between commas whose product is %d", digits.Side*digits.Side))
		}
		dims = append(dims, n)
	}
	return dims, nil
}

func newDataMNIST(c *console) *cobra.Command {
	var (
		f       dataFlags
		options convert.MNISTOptions
		dims    string
		test    int
	)
	cmd := &cobra.Command{
		Use:     "mnist IMAGES LABELS -o DIR",
		Short:   "Convert the idx files of MNIST, gzipped or not",
		Long:    "Convert a pair of idx files of MNIST, gzipped or not: images with pixels from -1 to 1, and labels 0 to 9.",
		Example: "  edl data mnist train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz -o data --test 1000",
		Args:    cobra.ExactArgs(2),
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.IntVar(&options.First, "first", 0, "only `N` images from the front")
	flags.IntVar(&options.Last, "last", 0, "only `N` images from the end")
	flags.IntVar(&test, "test", 0, "hold the last `N` images back as a test set")
	dimsFlag(cmd, &dims)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if options.Dims, err = parseDims(dims); err != nil {
			return err
		}
		images, _, err := openRegular(args[0])
		if err != nil {
			return err
		}
		defer images.Close()
		labels, _, err := openRegular(args[1])
		if err != nil {
			return err
		}
		defer labels.Close()
		return f.writeSplit(c, args[0], test, func(to *heldBack) error {
			_, err := convert.MNIST(cmd.Context(), images, labels, to, options)
			return inFiles(args, err)
		})
	}
	return cmd
}

// inFiles names a pair of files, where the error itself says which one it means.
func inFiles(paths []string, err error) error {
	var f *fault.Fault
	if err == nil || errors.As(err, &f) && f.Kind == fault.Canceled {
		return err
	}
	return inFile(paths[0]+" and "+paths[1], err)
}

func newDataHousing(c *console) *cobra.Command {
	var f dataFlags
	cmd := &cobra.Command{
		Use:   "housing FILE -o DIR",
		Short: "Convert the Boston housing table",
		Long: `Convert the Boston housing table, 14 numbers a line: 13 features, scaled to (x - mean) / (max - min), and the
price. The first 80 % of the rows are the training set, the others the test set.`,
		Args: cobra.ExactArgs(1),
	}
	f.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		file, _, err := openRegular(args[0])
		if err != nil {
			return err
		}
		defer file.Close()
		return f.writeDatasets(c, args[0], []string{trainSet, testSet}, func(to []*datasetFile) error {
			_, _, err := convert.Housing(cmd.Context(), file, to[0], to[1])
			return inFile(args[0], err)
		})
	}
	return cmd
}
