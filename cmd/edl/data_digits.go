package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/edl-go/edl/dataset/digits"
	"github.com/edl-go/edl/fault"
)

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
	cmd.Flags().IntVar(&count, "count", 6000, "number of training images")
	cmd.Flags().IntVar(&test, "test", 1000, "number of test images")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "seed of all chance")
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
	cmd.Flags().StringVar(dims, "dims", "784", "dims of an image: 784 for a vector, 1,28,28 for a picture with a channel")
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
