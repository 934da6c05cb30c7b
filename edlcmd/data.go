package edlcmd

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/spf13/cobra"
	_ "gocloud.dev/blob/s3blob" // datasets at s3://; it adds 12 MB to the command, and no more than 2 ms to its start
)

// dataFlags are the flags that every converter has.
type dataFlags struct {
	dir        string
	shards     int
	byLength   int // records of the training set that are sorted by length at a time; 0 for none
	compressor *choice
	layout     *choice
}

func newData(c *console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "data",
		Short: "Write training files: from tables by a schema, digits rendered from fonts, or converted texts, JSON lines, libsvm, pictures, MNIST and housing data",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDataDigits(c), newDataCSV(c), newDataMNIST(c), newDataHousing(c), newDataText(c), newDataJSONLines(c), newDataLibSVM(c), newDataVocabulary(c), newDataInfer(c), newDataTable(c), newDataImages(c))
	cmd.AddCommand(newDataLook(c)...)
	return cmd
}

func (f *dataFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.dir, "out", "o", "", "write to the directory `DIR`")
	cmd.Flags().IntVar(&f.shards, "shards", 1, "spread each dataset over `N` files")
	f.compressor = choiceFlag(cmd, "compressor", "how records are stored", recordio.None.String(), recordio.Snappy.String(), recordio.Gzip.String())
	f.layout = choiceFlag(cmd, "layout", "form of the files; plain is for readers of the original RecordIO", recordio.Indexed.String(),
		recordio.Plain.String())
}

// A datasetFile is one dataset while it is written.
type datasetFile struct {
	name    string
	writer  *dataset.ShardWriter
	sorted  *dataset.ByLength // to the writer; nil where records keep their order
	records int
}

// Write implements dataset.RecordWriter.
func (d *datasetFile) Write(record []byte) error {
	var to dataset.RecordWriter = d.writer
	if d.sorted != nil {
		to = d.sorted
	}
	if err := to.Write(record); err != nil {
		return err
	}
	d.records++
	return nil
}

// writeDatasets creates datasets of the given names, lets fill write them, and prints what came of it. All of them appear, or none when
// fill fails or writes nothing to the first; source is where records come from: a file, or a flag.
func (f *dataFlags) writeDatasets(c *console, source string, names []string, fill func(datasets []*datasetFile) error) (err error) {
	if f.dir == "" {
		return fault.E(fault.InvalidArgument, fault.Got("no directory to write to"), fault.Want("-o DIR"))
	}
	if err := folderHere("-o", f.dir); err != nil {
		return err
	}
	compressor, err := recordio.ParseCompressor(f.compressor.value)
	if err != nil {
		return err
	}
	options := recordio.Options{Compressor: compressor}
	if f.layout.value == recordio.Plain.String() {
		options.Layout = recordio.Plain
	}
	held, err := executor.HoldDirectory(f.dir)
	if err != nil {
		return err
	}
	defer held.Release()
	if err := f.noOthers(names); err != nil {
		return err
	}
	var datasets []*datasetFile
	defer func() {
		for _, d := range slices.Backward(datasets) { // the first made the directory, and removes it
			d.writer.Abort()
		}
	}()
	for _, name := range names {
		w, err := dataset.CreateShards(f.dir, name, f.shards, options)
		if err != nil {
			return err
		}
		datasets = append(datasets, &datasetFile{name: name, writer: w})
	}
	if err := fill(datasets); err != nil {
		return err
	}
	if datasets[0].records == 0 {
		return fault.E(fault.InvalidArgument, fault.At(source), fault.Got("no records"), fault.Want("at least one"))
	}
	for _, d := range datasets {
		if d.sorted != nil {
			if err := d.sorted.Flush(); err != nil {
				return err
			}
		}
		if err := d.writer.Close(); err != nil {
			return err
		}
		fmt.Fprintf(c.out, "%d records in %s; read them with --data %s='%s'\n", d.records, f.dir, d.name, f.glob(d.name))
	}
	return nil
}

// noOthers refuses a directory with files of a training or test set that this run does not replace: whoever reads the set would read them, too.
func (f *dataFlags) noOthers(names []string) error {
	here := map[string]bool{}
	for _, name := range names {
		for i := range f.shards {
			here[dataset.ShardName(name, i, f.shards)] = true
		}
	}
	for _, set := range []string{trainSet, testSet} {
		files, err := filepath.Glob(filepath.Join(f.dir, set+"-[0-9]*-of-[0-9]*"))
		if err != nil { // a directory with such signs
			return nil
		}
		for _, file := range files {
			if !here[filepath.Base(file)] {
				return fault.E(fault.InvalidArgument, fault.At("-o "+f.dir), fault.Gotf("%s, which this run does not replace", file), fault.Want("a directory without other files of these sets"),
					fault.Hintf("remove them (%s*), or name another directory", filepath.Join(f.dir, set+"-")))
			}
		}
	}
	return nil
}

// glob matches the files of a dataset.
func (f *dataFlags) glob(name string) string {
	return filepath.Join(f.dir, name+"-*")
}

// Names of the datasets that converters write.
const (
	trainSet = "train"
	testSet  = "test"
)

// heldBack passes records on to a training set and holds the last ones back for a test set. Their number is known, that of all records is
// not until the last one has come.
type heldBack struct {
	train, test *datasetFile
	held        [][]byte // a ring of the records that may be the last ones
	next        int      // place of the oldest one in a full ring
}

// Write implements dataset.RecordWriter.
func (h *heldBack) Write(record []byte) error {
	if cap(h.held) == 0 {
		return h.train.Write(record)
	}
	if len(h.held) < cap(h.held) {
		h.held = append(h.held, append([]byte(nil), record...))
		return nil
	}
	if err := h.train.Write(h.held[h.next]); err != nil {
		return err
	}
	h.held[h.next] = append(h.held[h.next][:0], record...)
	h.next = (h.next + 1) % len(h.held)
	return nil
}

// flush writes the test set.
func (h *heldBack) flush() error {
	if len(h.held) > 0 && h.train.records == 0 {
		return fault.E(fault.InvalidArgument, fault.At("--test"), fault.Gotf("%d, and %d records in all", cap(h.held), len(h.held)),
			fault.Want("fewer than there are, so that some are left to train with"))
	}
	for i := range h.held {
		if err := h.test.Write(h.held[(h.next+i)%len(h.held)]); err != nil {
			return err
		}
	}
	return nil
}

// maxHeld bounds the records that are held back in memory.
const maxHeld = 1 << 20

// writeSplit lets fill write the records of a file. The last test records become the test set, the others the training set.
func (f *dataFlags) writeSplit(c *console, source string, test int, fill func(*heldBack) error) error {
	if test < 0 || test > maxHeld {
		return fault.E(fault.InvalidArgument, fault.At("--test"), fault.Got(fmt.Sprint(test)), fault.Wantf("0 to %d", maxHeld))
	}
	if f.byLength < 0 || f.byLength > maxHeld {
		return fault.E(fault.InvalidArgument, fault.At("--by-length"), fault.Got(fmt.Sprint(f.byLength)), fault.Wantf("0 to %d", maxHeld))
	}
	names := []string{trainSet}
	if test > 0 {
		names = append(names, testSet)
	}
	return f.writeDatasets(c, source, names, func(to []*datasetFile) error {
		h := &heldBack{train: to[0], held: make([][]byte, 0, test)}
		if f.byLength > 0 {
			var err error
			if to[0].sorted, err = dataset.NewByLength(to[0].writer, f.byLength); err != nil {
				return err
			}
		}
		if test > 0 {
			h.test = to[1]
		}
		if err := fill(h); err != nil {
			return err
		}
		return h.flush()
	})
}
