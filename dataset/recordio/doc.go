// Package recordio reads and writes RecordIO files, the form of EDL's training data.
//
// A record is any sequence of bytes, also an empty one. A file is a row of chunks, and a file of no records is empty. A
// chunk is what is compressed and checked as one, and what a coordinator hands out as work; it is a header of five uint32,
// little-endian, and a payload:
//
//	magic       0x01020304
//	checksum    CRC-32 (IEEE) of the payload as stored
//	compressor  0 none, 1 snappy framing format, 2 gzip
//	stored      bytes of the payload as stored
//	records     number of records
//	payload     when decompressed: per record its length as uint32, and its bytes
//
// That is the layout of the Go library of PaddlePaddle. Fluid's C++ writer puts the number of records in front of the
// checksum: magic, records, checksum, compressor, stored. Both are read; see parseHeader for how they are told apart.
//
// Index finds the chunks of a file without reading payloads, RangeReader reads any run of records through it, and Scan
// reads whole files in order. Files are not trusted: whatever is cut, flipped or lies about its size ends in a fault of kind
// Corrupt or TooLarge that names file and byte, and a record is handed out only when its whole chunk is sound. A file that is cut
// exactly between two chunks is a sound, shorter file.
package recordio
