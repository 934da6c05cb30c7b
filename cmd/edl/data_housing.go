package main

import (
	"github.com/spf13/cobra"

	"github.com/edl-go/edl/dataset/convert"
)

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
