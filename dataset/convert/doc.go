// Package convert makes training records from common formats: CSV, MNIST's idx files, and the Boston housing table.
//
// Every converter reads from an io.Reader, so that the caller decides where data comes from, and writes to a
// dataset.RecordWriter, usually a dataset.ShardWriter. Sources are not trusted: lines and rows have bounds, numbers must be
// finite, and errors name the line or image, but not the file, which only the caller knows. What was written before an error
// stays written: a caller that wants all or nothing aborts its ShardWriter.
package convert
