package detect

import (
	"slices"
	"strings"
	"testing"
)

// TestNoNeighborHidesAValue: a value in a row of a table, a statement or a log line is found,
// whatever stands before and after it there: a comma and a digit after a card number are the next
// column of a CSV file, not the rest of a longer number.
func TestNoNeighborHidesAValue(t *testing.T) {
	values := []struct {
		entity Entity
		value  string
	}{
		{CreditCard, "4556737586899855"},
		{CreditCard, "4556 7375 8689 9855"},
		{CreditCard, "4556-7375-8689-9855"},
		{SSN, "418-52-7093"},
		{Phone, "+1 415 555 0142"},
		{Phone, "+493022610754"},
		{Phone, "(312) 555-0187"},
		{Phone, "312-555-0187"},
		{IBAN, "DE89370400440532013000"},
		{IBAN, "GB29 NWBK 6016 1331 9268 19"},
		{Email, "nora.quist@fjord.example"},
		{IPAddress, "84.17.203.9"},
		{IPAddress, "2a02:8071:51c0:1d20:7c4e:11ff:fe2b:90a3"},
		{APIKey, "AKIAZ7QLMWX4RT2KVB5D"},
		{APIKey, "ghp_x8Qm2Vt6LrYp4Kd9WzNc7Hb3Js5Fg1Ta0XeU"},
		{JWT, "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJub3JhIn0.q7Y2mXwL0vRz9KpTfHcBnD4sJgEaU1oI8yQ6tWx3ZkM"},
	}
	rows := []struct{ name, before, after string }{
		{"alone", "", ""},
		{"CSV", "7,", ",12"},
		{"CSV with two digits before", "ok,17,", ",1980-02-03"},
		{"CSV with three digits before", "a,123,", ",2027-12,123"},
		{"CSV with a date before", "1980-02-03,", ",1"},
		{"CSV with an amount before", "12,345.00,", ",345.00"},
		{"CSV with blanks", "17, ", ", 2027"},
		{"quoted CSV", `"17","`, `","2027-12"`},
		{"CSV with semicolons", "17;", ";2027"},
		{"TSV", "17\t", "\t2027"},
		{"columns of a log", "2026-11-28T10:15:00Z 17 ", " 200"},
		{"log members", "took=17ms value=", " status=200"},
		{"members with commas", "n=17,v=", ",w=200"},
		{"pipes", "17|", "|2027"},
		{"Markdown", "| 17 | ", " | 2027 |"},
		{"colons", "17:", ":2027:12"},
		{"SQL", "VALUES (1,", ",17,'x')"},
		{"SQL in quotes", "VALUES (1,'", "',17,'x')"},
		{"SQL, last", "VALUES (17,", ");"},
		{"JSON in text", `{"a":17,"v":"`, `","n":2027}`},
		{"JSON numbers in text", `{"a":[17,`, `,2027]}`},
		{"escaped JSON", `{\"v\":\"`, `\",\"n\":12}`},
		{"XML", "<n>17</n><v>", "</v><n>2027</n>"},
		{"XML attribute", `<r n="17" v="`, `" w="2027"/>`},
		{"HTML cells", "<td>17</td><td>", "</td><td>1</td>"},
		{"sentence", "It is ", ". 17 others follow"},
		{"list", "17, ", ", 4"},
		{"brackets", "[17][", "][4]"},
		{"parentheses", "17 (", ") 4"},
		{"lines", "17\n", "\n4"},
		{"CRLF", "17\r\n", "\r\n4"},
		{"escaped lines", `17\n`, `\n4`},
		{"slashes", "17 / ", " / 4"},
		{"query", "?n=17&v=", "&w=4"},
		{"equals sign", "17=", "=4"},
		{"backquotes", "17`", "`4"},
		{"dashes", "17 - ", " - 4"},
		{"hash sign", "17#", "#4"},
	}
	s := NewScanner()
	for _, v := range values {
		for _, r := range rows {
			if r.name == "colons" && strings.Count(v.value, ":") > 0 {
				continue // another colon belongs to the address
			}
			if r.name == "hash sign" && v.entity == Email {
				continue // which may have one
			}
			text := r.before + v.value + r.after
			found := s.Scan(nil, []byte(text))
			start, end := len(r.before), len(r.before)+len(v.value)
			if !slices.ContainsFunc(found, func(m Match) bool { return m == Match{v.entity, start, end} }) {
				t.Errorf("%s: %s in %q: found %v", r.name, v.entity, text, found)
			}
		}
	}
}

// TestNoEscapeHidesAValue: an escape sequence of a program text, of a URL, of a mail or of a
// terminal in front of a value or behind it is no part of the value, whichever letters and digits
// it is written with. A plus sign is a blank in a URL.
func TestNoEscapeHidesAValue(t *testing.T) {
	escapes := []string{
		`\n`, `\r`, `\t`, `\b`, `\f`, `\v`, `\a`, `\0`, `\e`, `\N`, `\r\n`, `\"`, `\/`, `\\n`,
		`\u53f7`, `\u00a0`, `\u002c`, `\u000a`, `\u003A`, `\u3000`, `\ud83d\udcb3`, `\U0001F4B3`, `\u{1f4b3}`,
		`\x20`, `\xa0`, `\x0A`, `\x{a0}`, `\012`, `\040`,
		"\x1b[31m", "\x1b[0m", "\x1b[1;31m", "\x1b[38;5;196m", "\x1b[m", "\x1b[2K", "\x1b[K", "\x1b[4C", "\x1b(B", "\x1b]0;x\x07", "\x1b]8;;\x1b\\",
		`\x1b[31m`, `\u001b[1;31m`, `\033[1m`, `\e[31m`, `\e[K`, `^[[31m`, `[31m`, `[1;31m`,
		"=20", "=0A", "=0D=0A", "=2C", "=C2=A0", "=\n", "%20", "%2C", "%0A", "%C2%A0", "+",
		"&nbsp;", "&#160;", "&#xa0;",
	}
	s := NewScanner()
	for _, v := range []struct {
		entity      Entity
		name, value string
	}{
		{CreditCard, "", "4556737586899855"},
		{CreditCard, "", "4556 7375 8689 9855"},
		{SSN, "", "418-52-7093"},
		{SSN, "ssn ", "418527093"},
		{Phone, "", "+1 415 555 0142"},
		{Phone, "", "+493022610754"},
		{Phone, "", "(312) 555-0187"},
		{Phone, "", "312-555-0187"},
		{Phone, "phone: ", "3125550187"},
		{IBAN, "", "DE89370400440532013000"},
		{IBAN, "", "NO9386011117947"},
		{IBAN, "", "GB29 NWBK 6016 1331 9268 19"},
		{Email, "", "nora.quist@fjord.example"},
		{IPAddress, "", "84.17.203.9"},
		{APIKey, "", "AKIAZ7QLMWX4RT2KVB5D"},
		{APIKey, "", "ghp_x8Qm2Vt6LrYp4Kd9WzNc7Hb3Js5Fg1Ta0XeU"},
		{JWT, "", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJub3JhIn0.q7Y2mXwL0vRz9KpTfHcBnD4sJgEaU1oI8yQ6tWx3ZkM"},
	} {
		for _, escape := range escapes {
			for _, word := range []string{"", "x"} {
				before := v.name + word + escape
				covers := func(m Match) bool {
					// A letter of an escape may also be one of a name: bnora@; a digit, of a number.
					exact := m.Start == len(before) || m.Start >= len(v.name) && m.Start < len(before) && (v.entity == Email || escape[0] == '\\' || escape == "=20")
					return m.Entity == v.entity && exact && m.End == len(before)+len(v.value)
				}
				for _, after := range []string{"", " ", escape, escape + "y", escape + "17"} {
					if v.entity == Email && (escape == "%20" || escape == "+") || v.entity == IPAddress && escape == "+" {
						continue // which it, or a version, may have
					}
					text := before + v.value + after
					if found := s.Scan(nil, []byte(text)); !slices.ContainsFunc(found, covers) {
						t.Errorf("%s in %q: found %v, want one at %d", v.entity, text, found, len(before))
					}
				}
			}
		}
	}
	for _, text := range []string{`DOMAIN\bob@fjord.example`, `\eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJub3JhIn0.q7Y2mXwL0vRz9KpTfHcBnD4sJgEaU1oI8yQ6tWx3ZkM`, `\NO9386011117947`} {
		at := strings.IndexByte(text, '\\') + 1
		if found := s.Scan(nil, []byte(text)); len(found) != 1 || found[0].Start != at || found[0].End != len(text) {
			t.Errorf("%q: found %v, want one at %d", text, found, at)
		}
	}
}

// TestNoJoinedNeighborHidesAValue: a name before a value and a date, a number or a word after it,
// joined to it by - . / or _, hide no value, and are no part of it.
func TestNoJoinedNeighborHidesAValue(t *testing.T) {
	before := []string{"-", "_", ".", "/"}
	after := []string{"/12/27", "-2027", "-12-27", ".27", "_", "_old", "_17", "-x", "x", "EUR"}
	s := NewScanner()
	check := func(e Entity, before, value, after string) {
		t.Helper()
		text := before + value + after
		want := Match{e, len(before), len(before) + len(value)}
		if found := s.Scan(nil, []byte(text)); !slices.Contains(found, want) {
			t.Errorf("%s in %q: found %v, want %v", e, text, found, want)
		}
	}
	// The characters between have a meaning in the others: a local part may have most of them, a
	// key or a domain may go on with them, and addresses with them are versions.
	for _, v := range []struct {
		entity        Entity
		name, value   string
		before, after []string
	}{
		{CreditCard, "card", "4556737586899855", before, after},
		{CreditCard, "cc", "4556 7375 8689 9855", before, after},
		{CreditCard, "visa", "4556-7375-8689-9855", before, after},
		{SSN, "ssn", "418-52-7093", before, after},
		{SSN, "ssn", "418527093", before, after},
		{Phone, "phone", "+1 415 555 0142", before, after},
		{Phone, "tel", "(312) 555-0187", before, after},
		{Phone, "tel", "312-555-0187", before, after},
		{IBAN, "iban", "DE89370400440532013000", before, after},
		{IBAN, "iban", "GB29 NWBK 6016 1331 9268 19", before, after},
		{Email, "mail", "nora.quist@fjord.example", []string{"/"}, []string{"/12/27", "-2027", "-12-27", ".27"}},
		{IPAddress, "ip", "84.17.203.9", []string{"/"}, []string{"/12/27"}},
		{IPAddress, "ip", "2a02:8071:51c0:1d20:7c4e:11ff:fe2b:90a3", []string{"-", "_", "/"}, []string{"/12/27", "-2027", "-12-27", "-x"}},
		{APIKey, "key", "AKIAZ7QLMWX4RT2KVB5D", before, []string{"/12/27", ".27", "-2027", "_old"}},
		{APIKey, "key", "ghp_x8Qm2Vt6LrYp4Kd9WzNc7Hb3Js5Fg1Ta0XeU", before, []string{"/12/27", ".27", "-2027", "_old"}},
		{JWT, "token", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJub3JhIn0.q7Y2mXwL0vRz9KpTfHcBnD4sJgEaU1oI8yQ6tWx3ZkM", before, []string{"/12/27"}},
	} {
		for _, mark := range v.before {
			check(v.entity, v.name+mark, v.value, "")
		}
		for _, rest := range v.after {
			check(v.entity, v.name+" ", v.value, rest)
			if v.entity == CreditCard || v.entity == IBAN { // which need no name
				check(v.entity, "", v.value, rest)
			}
		}
	}
	check(Email, "", "nora@mail.web-01.fjord.example", "")
	// These need no word before them where a slash or a fraction follows.
	for _, rest := range []string{"/1980", "/12/1980", ".0", ".50"} {
		check(SSN, "", "418-52-7093", rest)
	}
	for _, rest := range []string{"/17", "/12/27"} {
		check(Phone, "", "312-555-0187", rest)
		check(Phone, "", "(312) 555-0187", rest)
	}
	check(Phone, "", "(312) 555-0187", "-17")
	for _, rest := range []string{"/2712", "/12/27", ".0", ".00", "-123", "/123", "_1"} {
		check(CreditCard, "", "4556737586899855", rest)
		check(CreditCard, "", "4556-7375-8689-9855", rest)
		check(IBAN, "", "DE89370400440532013000", rest)
	}
}

// TestNoEmphasisHidesAValue: underscores around a value, as of an emphasis in Markdown, are no part of
// it; within a longer word they are.
func TestNoEmphasisHidesAValue(t *testing.T) {
	s := NewScanner()
	for _, v := range []struct {
		entity Entity
		value  string
	}{
		{Email, "nora.quist@fjord.example"}, {CreditCard, "4556737586899855"}, {CreditCard, "4556-7375-8689-9855"}, {SSN, "418-52-7093"},
		{Phone, "+493022610754"}, {Phone, "312-555-0187"}, {Phone, "(312) 555-0187"}, {IBAN, "DE89370400440532013000"}, {IPAddress, "84.17.203.9"},
	} {
		for _, mark := range []string{"_", "__", "*", "**", "~"} {
			for _, before := range []string{"", "to ", "("} {
				text := before + mark + v.value + mark
				want := Match{v.entity, len(before + mark), len(before+mark) + len(v.value)}
				if found := s.Scan(nil, []byte(text)); v.entity == Email && mark == "~" {
					continue // which may begin with one
				} else if !slices.Contains(found, want) {
					t.Errorf("%s in %q: found %v, want %v", v.entity, text, found, want)
				}
			}
		}
	}
	for _, text := range []string{"lib_84.17.203.9_", "id_4556737586899855_", "part_418-52-7093_", "a_312-555-0187_17", "_84.17.203.9_x"} {
		if got := findings(text); got != "" {
			t.Errorf("%q: found %s", text, got)
		}
	}
}

// TestNoInvisibleCharacterHidesAValue: a zero-width space or another invisible character in a value,
// or between it and its neighbor, hides neither the value nor a part of it.
func TestNoInvisibleCharacterHidesAValue(t *testing.T) {
	s := NewScanner()
	for _, v := range []string{
		"4556737586899855", "4556 7375 8689 9855", "418-52-7093", "+493022610754", "312-555-0187", "DE89370400440532013000", "nora.quist@fjord.example",
		"84.17.203.9", "AKIAZ7QLMWX4RT2KVB5D", "ghp_x8Qm2Vt6LrYp4Kd9WzNc7Hb3Js5Fg1Ta0XeU",
	} {
		for _, hidden := range []string{"\u200b", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u200b\u200b"} {
			check := func(text string, start, end int) {
				t.Helper()
				found := s.Scan(nil, []byte(text))
				if !slices.ContainsFunc(found, func(m Match) bool { return m.Start <= start && m.End >= end }) {
					t.Errorf("%q: found %v, want one of %d to %d", text, found, start, end)
				}
				for i := 1; i < len(found); i++ {
					if found[i].Start < found[i-1].End {
						t.Errorf("%q: findings overlap: %v", text, found)
					}
				}
			}
			for _, beside := range []string{"17", "x", "1980-02-03", v} {
				check(beside+hidden+v, len(beside+hidden), len(beside+hidden+v))
				check(v+hidden+beside, 0, len(v))
			}
			inside := v[:3] + hidden + v[3:]
			check("to "+inside+".", 3, 3+len(inside))
		}
	}
	if got := findings("v\u200b1.2\u200b.3 and 2027\u200b-11\u200b-28"); got != "" {
		t.Errorf("found %s", got)
	}
}

// TestJoinedNumbersAreNoValues: identifiers, versions, paths and dates remain what they are, also
// where a part of them has the check digit of a card or the form of a social security number.
func TestJoinedNumbersAreNoValues(t *testing.T) {
	for _, text := range []string{
		"card id 40128888-8888-1881-4012-abcdefabcdef", "card f47ac10b-58cc-4372-a567-401288888888", "card 4556737586899855-4372-a567-0e02b2c3d479",
		"order-4556737586899855", "/orders/4556737586899855/items", "req_4556737586899855", "17-4556737586899855", "card 17-4556737586899855",
		"card 0.4556737586899855", "4556737586899855cafe", "4556737586899855-ab12cd", "4556737586899855_0e02b2c3", "4556737586899855-20271128101500", "a1_4556737586899855",
		"part 418-52-7093-2027", "part-418-52-7093", "part 418-52-7093_17", "part-312-555-0187", "part 312-555-0187-17",
		"lib-1.2.3.4", "lib_1.2.3.4", "lib.1.2.3.4", "lib_1.2.3.4_x", "1.2.3-4", "2027-11-28_17", "card 2027-11-28/17", "backup_2027-11-28-10-15-00.tar",
	} {
		if got := findings(text); got != "" {
			t.Errorf("%q: found %s", text, got)
		}
	}
}
