package convert

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/edl-go/edl/dataset/internal/interrupt"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/bytemark"
)

// UnknownWord is the word of a vocabulary whose number all words have that are not in it.
const UnknownWord = "<unk>"

// Bounds on a vocabulary.
const (
	maxWords = 1 << 24
	maxWord  = 1 << 10 // bytes of a word
)

// A Vocabulary numbers words from 0 on.
type Vocabulary struct {
	words   []string
	numbers map[string]int64
	unknown int64 // -1: no word stands for the unknown ones
}

// NewVocabulary numbers words in their order. Each may stand there once.
func NewVocabulary(words []string) (*Vocabulary, error) {
	v := &Vocabulary{words: words, numbers: make(map[string]int64, len(words)), unknown: -1}
	for i, word := range words {
		if first, twice := v.numbers[word]; twice {
			return nil, fault.E(fault.Corrupt, fault.At(atLine(i+1)), fault.Got(fault.Quote(word)+" again"), fault.Wantf("each word once; it is in line %d", first+1))
		}
		v.numbers[word] = int64(i)
	}
	if n, ok := v.numbers[UnknownWord]; ok {
		v.unknown = n
	}
	return v, nil
}

// ReadVocabulary reads a vocabulary of one word a line.
func ReadVocabulary(ctx context.Context, r io.Reader) (*Vocabulary, error) {
	var words []string
	err := eachLine(ctx, r, func(line string, number int) error {
		switch {
		case line == "" || len(line) > maxWord || strings.ContainsFunc(line, isSpace):
			return fault.E(fault.Corrupt, fault.At(atLine(number)), fault.Got(fault.Quote(line)), fault.Wantf("one word of at most %d bytes", maxWord))
		case len(words) == maxWords:
			return fault.E(fault.TooLarge, fault.At(atLine(number)), fault.Got("more words"), fault.Wantf("at most %d", maxWords))
		}
		words = append(words, line)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return NewVocabulary(words)
}

// CountWords makes a vocabulary of the words of a text: the most frequent first, and of equally frequent ones in the order of their bytes. It leaves out words
// that are there less than least times, and after the first most words, if most is not 0. UnknownWord comes last, and counts for most. skip columns,
// which tabs end, are no text.
func CountWords(ctx context.Context, r io.Reader, skip int, lower bool, least, most int) (*Vocabulary, error) {
	counts := map[string]int{}
	err := eachLine(ctx, r, func(line string, number int) error {
		for range skip {
			_, line, _ = strings.Cut(line, "\t")
		}
		if lower {
			line = strings.ToLower(line)
		}
		for word := range strings.FieldsSeq(line) {
			if len(word) > maxWord {
				return fault.E(fault.TooLarge, fault.At(atLine(number)), fault.Gotf("a word of %d bytes", len(word)), fault.Wantf("at most %d", maxWord))
			}
			if counts[word]++; len(counts) > maxWords {
				return fault.E(fault.TooLarge, fault.At(atLine(number)), fault.Got("more different words"), fault.Wantf("at most %d", maxWords))
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	delete(counts, UnknownWord)
	maps.DeleteFunc(counts, func(_ string, n int) bool { return n < least })
	words := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	if most > 0 && len(words) > most-1 {
		words = words[:most-1]
	}
	return NewVocabulary(append(words, UnknownWord))
}

// Words returns the words in the order of their numbers. The caller does not change them.
func (v *Vocabulary) Words() []string { return v.words }

// Number returns the number of a word, or that of UnknownWord. It fails if the vocabulary has neither.
func (v *Vocabulary) Number(word string) (int64, error) {
	if n, ok := v.numbers[word]; ok {
		return n, nil
	}
	if v.unknown >= 0 {
		return v.unknown, nil
	}
	return 0, fault.E(fault.NotFound, fault.Got("the word "+fault.Quote(word)), fault.Wantf("one of the %d words of the vocabulary", len(v.words)),
		fault.Hint("add a line "+UnknownWord+" to the vocabulary, which stands for all other words"))
}

// numberOf returns the number of a word, and false for others, for which the vocabulary may have a number, too, and without a vocabulary.
func (v *Vocabulary) numberOf(word string) (number int64, ok bool) {
	if v == nil {
		return 0, false
	}
	number, ok = v.numbers[word]
	return number, ok
}

// appendNumbers appends the numbers of the words of a text, at most most of them if most is not 0.
func appendNumbers(dst []int64, text string, lower bool, most int, numberOf func(word string) (int64, error)) ([]int64, error) {
	if lower {
		text = strings.ToLower(text)
	}
	n := 0
	for word := range strings.FieldsSeq(text) {
		if n++; most > 0 && n > most {
			break
		}
		number, err := numberOf(word)
		if err != nil {
			return dst, err
		}
		dst = append(dst, number)
	}
	return dst, nil
}

func isSpace(r rune) bool { return strings.ContainsRune(" \t\r\v\f", r) }

// eachLine calls f with each line, without its end, and its number from 1 on. A line has at most maxLine bytes, and is UTF-8. A byte order mark is no part of the first one.
func eachLine(ctx context.Context, r io.Reader, f func(line string, number int) error) error {
	lines := bufio.NewScanner(bytemark.Skip(r))
	lines.Buffer(make([]byte, 64<<10), maxLine)
	number := 0
	for lines.Scan() {
		number++
		if err := interrupt.Check(ctx, "lines"); err != nil {
			return err
		}
		if !utf8.Valid(lines.Bytes()) {
			return fault.E(fault.Corrupt, fault.At(atLine(number)), fault.Got("bytes that are no text in UTF-8"), fault.Want("UTF-8"), fault.Hint("convert the file, as with iconv -t UTF-8"))
		}
		if err := f(strings.TrimSuffix(lines.Text(), "\r"), number); err != nil {
			return err
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fault.E(fault.TooLarge, fault.At(atLine(number+1)), fault.Got("a longer line"), fault.Wantf("at most %d bytes", maxLine))
	case err != nil:
		return fault.Wrap(fault.Unavailable, fmt.Sprintf("after line %d", number), err)
	}
	return nil
}
