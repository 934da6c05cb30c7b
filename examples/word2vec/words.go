package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/tensor"
)

// count returns the text as numbers of words, and the words by their numbers, the most frequent first.
func count(text string) (numbers []int64, words []string) {
	running := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && r != '\'' })
	frequency := map[string]int{}
	for _, w := range running {
		frequency[w]++
	}
	words = slices.SortedFunc(maps.Keys(frequency), func(a, b string) int {
		return cmp.Or(cmp.Compare(frequency[b], frequency[a]), strings.Compare(a, b))
	})
	number := map[string]int64{}
	for i, w := range words {
		number[w] = int64(i)
	}
	for _, w := range running {
		numbers = append(numbers, number[w])
	}
	return numbers, words
}

// writeGrams writes one record for each word that has a whole context before it: the words of the context and the word itself.
func writeGrams(w dataset.RecordWriter, numbers []int64) error {
	gram := make([]*tensor.Tensor, context+1)
	var record []byte
	for i := range max(0, len(numbers)-context) {
		for j := range gram {
			t, err := tensor.FromSlice(numbers[i+j : i+j+1])
			if err != nil {
				return err
			}
			gram[j] = t
		}
		record = dataset.AppendRecord(record[:0], gram...)
		if err := w.Write(record); err != nil {
			return err
		}
	}
	return nil
}
