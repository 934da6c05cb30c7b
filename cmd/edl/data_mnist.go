package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/edl-go/edl/dataset/convert"
	"github.com/edl-go/edl/fault"
)

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
	flags.IntVar(&options.First, "first", 0, "only so many images from the front")
	flags.IntVar(&options.Last, "last", 0, "only so many images from the end")
	flags.IntVar(&test, "test", 0, "hold the last so many images back as a test set")
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
