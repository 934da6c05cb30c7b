package edlcmd

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/convert"
	"github.com/edl-go/edl/dataset/schema"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
	"github.com/spf13/cobra"
)

// labelsFile has the names of the classes of images, one a line: that of class 0 first.
const labelsFile = "labels.txt"

func newDataImages(c *console) *cobra.Command {
	var (
		f       dataFlags
		options convert.ImageOptions
		size    string
	)
	cmd := &cobra.Command{
		Use:   "images FOLDER -o DIR",
		Short: "Convert pictures: a folder for each class",
		Long: `Convert PNG and JPEG files. FOLDER has a folder for each class, and the names of these, in order, are the classes 0, 1 and so on; ` + labelsFile + ` in DIR lists them. A record is
image float32[3,height,width] from 0 to 1 (with --gray [1,height,width]) and label int64[1]. A picture is scaled until it covers the size, and its middle is taken. Records are in an order that mixes
the classes, and --test holds back files by a hash of their paths: so a file is in the same set each time. The command prints the fields of a record as layers.OpenDataset
takes them.`,
		Example: "  edl data images flowers -o data --size 224x224 --test 0.1",
		Args:    cobra.ExactArgs(1),
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&size, "size", "32x32", "`HEIGHTxWIDTH` of images in records, in pixels")
	flags.BoolVar(&options.Gray, "gray", false, "one channel of brightness, and not red, green and blue")
	flags.Float64Var(&options.Test, "test", 0, "hold back this `SHARE` of the files as a test set, such as 0.1")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		height, width, ok := strings.Cut(size, "x")
		if options.Height, err = strconv.Atoi(height); err == nil && ok {
			options.Width, err = strconv.Atoi(width)
		}
		if err != nil || !ok {
			return fault.E(fault.InvalidArgument, fault.At("--size"), fault.Got(fault.Quote(size)), fault.Want("HEIGHTxWIDTH, such as 224x224"))
		}
		if _, err := os.Stat(args[0]); err != nil {
			return fileFault(args[0], err)
		}
		folder, err := convert.OpenImages(os.DirFS(args[0]))
		if err != nil {
			return inFile(args[0], err)
		}
		options.Workers = runtime.GOMAXPROCS(0)
		names := []string{trainSet}
		if options.Test > 0 {
			names = append(names, testSet)
		}
		err = f.writeDatasets(c, args[0], names, func(to []*datasetFile) error {
			return inFile(args[0], folder.Write(cmd.Context(), options, to[0], to[len(to)-1]))
		})
		if err != nil {
			return err
		}
		labels := filepath.Join(f.dir, labelsFile)
		if err := writeLines(labels, folder.Classes); err != nil {
			return err
		}
		fmt.Fprintf(c.out, "%d classes, which %s lists\n", len(folder.Classes), labels)
		channels := int64(3)
		if options.Gray {
			channels = 1
		}
		fmt.Fprintln(c.out, "fields of a record, for layers.OpenDataset:")
		for _, field := range imageFields(channels, int64(options.Height), int64(options.Width), int64(len(folder.Classes))) {
			if _, err := fmt.Fprintf(c.out, "  %s\n", fieldInGo(field)); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

// imageFields are the fields of a record of a picture.
func imageFields(channels, height, width, classes int64) []schema.Field {
	return []schema.Field{
		{Field: dataset.Field{Name: "image", DType: tensor.Float32, Dims: []int64{channels, height, width}}},
		{Field: dataset.Field{Name: "label", DType: tensor.Int64, Dims: []int64{1}}, Role: schema.Label, Values: classes},
	}
}
