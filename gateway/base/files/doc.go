// Package files has small private files and locks between processes.
//
// # Locks
//
// Filelock prevents two processes from changing a file at the same time: a gateway and a
// command that an operator runs meanwhile.
//
// # Small private files
//
// Statefile stores small private files, such as the state that a program
// needs at its next start. A file is replaced atomically: a reader, also after a
// crash, finds the old content or the new one and never a part of it. It has mode
// 0600, because some files contain secrets.
//
// The owner of a file defines the meaning of its content, and handles missing and
// damaged files. The directory must exist, and must not be writable by others.
package files
