package edlcmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/edl-go/edl/dataset/convert"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
	"github.com/spf13/cobra"
)

// wordFlags say how words become numbers.
type wordFlags struct {
	vocabulary string
	lower      bool
}

func (w *wordFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.vocabulary, "vocabulary", "", "words that have numbers: `FILE` of one word a line, numbered from 0; "+
		convert.UnknownWord+" stands for all others")
	cmd.Flags().BoolVar(&w.lower, "lower", false, "make words lower case before they are looked up")
}

// read reads the vocabulary, nil if there is none.
func (w *wordFlags) read(ctx context.Context) (v *convert.Vocabulary, err error) {
	if w.vocabulary == "" {
		return nil, nil
	}
	file, _, err := openRegular(w.vocabulary)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if v, err = convert.ReadVocabulary(ctx, file); err != nil {
		return nil, inFile(w.vocabulary, err)
	}
	return v, nil
}

// convertLines converts a file of lines. Its last test samples go to a test set.
func (f *dataFlags) convertLines(c *console, path string, test int, convert func(r io.Reader, to *heldBack) error) error {
	file, _, err := openRegular(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return f.writeSplit(c, path, test, func(to *heldBack) error { return inFile(path, convert(file, to)) })
}

func (f *dataFlags) lengthFlag(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.byLength, "by-length", 0, "sort `N` samples of the training set at a time by the length of their longest sequence; 0 keeps their order")
}

func testFlag(cmd *cobra.Command, test *int) {
	cmd.Flags().IntVar(test, "test", 0, "hold the last `N` samples back as a test set")
}

func newDataText(c *console) *cobra.Command {
	var (
		f       dataFlags
		words   wordFlags
		options convert.TextOptions
		test    int
	)
	cmd := &cobra.Command{
		Use:   "text FILE (--vocabulary WORDS | --keys) -o DIR",
		Short: "Convert lines of text to sequences of words",
		Long: `Convert lines of text to sequences of words. Each line is a class from 0 on as label, a tab, and words between spaces. It becomes a record of the
words int64[1] in 1 LoD level, and the label int64[1]. With --next a line has no label: a record is all its words but the last, and all but the first.
With --keys no vocabulary is needed: words become keys of tables that grow, by a hash (XXH64).`,
		Example: "  edl data vocabulary reviews.tsv --skip 1 -o words.txt\n  edl data text reviews.tsv --vocabulary words.txt -o data --test 100",
		Args:    cobra.ExactArgs(1),
	}
	f.add(cmd)
	f.lengthFlag(cmd)
	words.add(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&options.Keys, "keys", false, "words become keys of tables that grow; --length fills with -1, which is no key")
	flags.IntVar(&options.Most, "most", 0, "only the first `N` words of a line")
	flags.BoolVar(&options.Next, "next", false, "the label of each word is the next word")
	flags.IntVar(&options.Length, "length", 0, "records of `N` words without LoD: the rest is left out, or filled with --pad")
	flags.StringVar(&options.Pad, "pad", "<pad>", "`WORD` of the vocabulary to fill with")
	testFlag(cmd, &test)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if options.Vocabulary, err = words.read(cmd.Context()); err != nil {
			return err
		}
		switch {
		case options.Length < 0 || options.Most < 0:
			return fault.E(fault.InvalidArgument, fault.Gotf("--length %d and --most %d", options.Length, options.Most), fault.Want("numbers from 0 on; 0 for all words"))
		case options.Length > 0 && options.Next:
			return fault.E(fault.InvalidArgument, fault.Got("--length and --next"), fault.Want("one of the two"))
		case options.Keys && options.Vocabulary != nil:
			return fault.E(fault.InvalidArgument, fault.Got("--keys and --vocabulary"), fault.Want("one of the two"))
		case options.Keys:
			if err := refuseIdle(flags, []string{"pad"}, "keys, which are filled with -1", "no --keys"); err != nil {
				return err
			}
		case options.Vocabulary == nil:
			return fault.E(fault.InvalidArgument, fault.Got("no vocabulary"), fault.Want("--vocabulary FILE, or --keys"), fault.Hint("\"edl data vocabulary\" makes one"))
		}
		options.Lower = words.lower
		return f.convertLines(c, args[0], test, func(r io.Reader, to *heldBack) error {
			_, err := convert.Text(cmd.Context(), r, to, options)
			return err
		})
	}
	return cmd
}

func newDataJSONLines(c *console) *cobra.Command {
	var (
		f     dataFlags
		words wordFlags
		list  []string
		test  int
	)
	cmd := &cobra.Command{
		Use:   "jsonl FILE --field NAME:TYPE... -o DIR",
		Short: "Convert JSON lines, also with sequences",
		Long: `Convert JSON lines: each line is an object, and becomes a record of the members that --field names, in this order. age:float32 is one number,
pixels:float32[28,28] rows of numbers, clicks:int64[1]/1 a sequence of numbers (1 LoD level), and review:words a text, whose words --vocabulary numbers. user:key is a text that becomes a key of a
table that grows, int64[1], by a hash (XXH64); a whole number is its own key; tags:key[1]/1 is a sequence of keys.`,
		Example: "  edl data jsonl users.jsonl --field clicks:int64[1]/1 --field age:float32 --field bought:int64 -o data",
		Args:    cobra.ExactArgs(1),
	}
	f.add(cmd)
	f.lengthFlag(cmd)
	words.add(cmd)
	cmd.Flags().StringArrayVar(&list, "field", nil, "member of each object, as `NAME:TYPE[DIMS]/LEVELS` or NAME:words; TYPE is a type of numbers or key; repeatable")
	testFlag(cmd, &test)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		options := convert.JSONLinesOptions{Lower: words.lower}
		if options.Vocabulary, err = words.read(cmd.Context()); err != nil {
			return err
		}
		for _, text := range list {
			field, err := convert.ParseJSONField(text)
			if err != nil {
				return fault.Wrap(fault.InvalidArgument, "--field", err)
			}
			if slices.ContainsFunc(options.Fields, func(f convert.JSONField) bool { return f.Name == field.Name }) {
				return fault.E(fault.InvalidArgument, fault.At("--field"), fault.Gotf("%s twice", fault.Quote(field.Name)), fault.Want("each member once"))
			}
			options.Fields = append(options.Fields, field)
		}
		return f.convertLines(c, args[0], test, func(r io.Reader, to *heldBack) error {
			_, err := convert.JSONLines(cmd.Context(), r, to, options)
			return err
		})
	}
	return cmd
}

func newDataLibSVM(c *console) *cobra.Command {
	var (
		f       dataFlags
		options convert.LibSVMOptions
		test    int
	)
	cmd := &cobra.Command{
		Use:   "libsvm FILE -o DIR",
		Short: "Convert libsvm's lines of sparse features to sequences",
		Long: `Convert libsvm's lines of sparse features: LABEL NUMBER:VALUE NUMBER:VALUE ... Each line becomes a record of the numbers int64[1] and the values
float32[1] of its features, in 1 LoD level each, and the label [1] of --label-type.`,
		Args: cobra.ExactArgs(1),
	}
	f.add(cmd)
	f.lengthFlag(cmd)
	cmd.Flags().Int64Var(&options.Features, "features", 0, "numbers of features are below `N` (default: any)")
	labelType := choiceFlag(cmd, "label-type", "int64 for classes, where -1 becomes 0; float32 for numbers", tensor.Int64.String(), tensor.Float32.String())
	testFlag(cmd, &test)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		options.LabelDType, _ = tensor.ParseDType(labelType.value)
		return f.convertLines(c, args[0], test, func(r io.Reader, to *heldBack) error {
			_, err := convert.LibSVM(cmd.Context(), r, to, options)
			return err
		})
	}
	return cmd
}

func newDataVocabulary(c *console) *cobra.Command {
	var (
		out               string
		skip, least, most int
		lower             bool
	)
	cmd := &cobra.Command{
		Use:   "vocabulary FILE -o WORDS",
		Short: "Count the words of a text, and write a vocabulary",
		Long: `Count the words of a text, and write a vocabulary: one word a line, the most frequent first, and ` + convert.UnknownWord + ` last, which stands for all
words that are not in it.`,
		Args: cobra.ExactArgs(1),
	}
	flags := cmd.Flags()
	flags.StringVarP(&out, "out", "o", "", "write to `FILE`; - prints the words")
	flags.IntVar(&skip, "skip", 0, "the first `N` columns, which tabs end, are no text; 1 where lines begin with a label")
	flags.IntVar(&least, "least", 1, "leave out words that are there less than `N` times")
	flags.IntVar(&most, "most", 0, "at most `N` words, with "+convert.UnknownWord+" (default: all)")
	flags.BoolVar(&lower, "lower", false, "make words lower case")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if out == "" || skip < 0 || most < 0 {
			return fault.E(fault.InvalidArgument, fault.Gotf("-o %s, --skip %d, --most %d", fault.Quote(out), skip, most), fault.Want("-o FILE, and numbers from 0 on"))
		}
		file, _, err := openRegular(args[0])
		if err != nil {
			return err
		}
		defer file.Close()
		v, err := convert.CountWords(cmd.Context(), file, skip, lower, least, most)
		if err != nil {
			return inFile(args[0], err)
		}
		if out == "-" {
			_, err := fmt.Fprintln(c.out, strings.Join(v.Words(), "\n"))
			return err
		}
		if err := writeLines(out, v.Words()); err != nil {
			return err
		}
		fmt.Fprintf(c.out, "%d words in %s\n", len(v.Words()), out)
		return nil
	}
	return cmd
}

// writeLines writes a file that appears as a whole.
func writeLines(path string, lines []string) (err error) {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fileFault(path, err)
	}
	defer os.Remove(temp.Name()) // fails when it has its name
	w := bufio.NewWriter(temp)
	for _, line := range lines {
		w.WriteString(line) // w keeps the error
		w.WriteByte('\n')
	}
	err = errors.Join(w.Flush(), temp.Chmod(0o644), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	return fileFault(path, err)
}
