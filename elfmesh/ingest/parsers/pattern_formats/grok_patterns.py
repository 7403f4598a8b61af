"""Built-in grok patterns by their usual names, written for RE2; a user's pattern may replace one.

RE2 has no look-around, so the pattern of a number does not check its neighbours; the surrounding literals do.
"""

from __future__ import annotations

from collections.abc import Mapping

_MONTH = (
    "Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:tember)?|Oct(?:ober)?"
    "|Nov(?:ember)?|Dec(?:ember)?"
)
_DAY = "Mon(?:day)?|Tue(?:sday)?|Wed(?:nesday)?|Thu(?:rsday)?|Fri(?:day)?|Sat(?:urday)?|Sun(?:day)?"
_LEVEL = (
    "alert|trace|debug|notice|info(?:rmation)?|warn(?:ing)?|err(?:or)?|crit(?:ical)?|fatal|severe"
    "|emerg(?:ency)?"
)
_OCTET = r"(?:25[0-5]|2[0-4]\d|1?\d{1,2})"
_HEX4 = "[0-9A-Fa-f]{1,4}"

PATTERNS: Mapping[str, str] = {
    # words and numbers
    "USERNAME": r"[a-zA-Z0-9._-]+",
    "USER": "%{USERNAME}",
    "EMAILLOCALPART": r"[a-zA-Z0-9!#$%&'*+\-/=?^_`{|}~.]{1,64}",
    "EMAILADDRESS": "%{EMAILLOCALPART}@%{HOSTNAME}",
    "INT": r"[+-]?\d+",
    "BASE10NUM": r"[+-]?(?:\d+(?:\.\d+)?|\.\d+)",
    "NUMBER": "%{BASE10NUM}",
    "BASE16NUM": "[+-]?(?:0x)?[0-9A-Fa-f]+",
    "BASE16FLOAT": r"[+-]?(?:0x)?(?:[0-9A-Fa-f]+(?:\.[0-9A-Fa-f]*)?|\.[0-9A-Fa-f]+)",
    "POSINT": r"[1-9]\d*",
    "NONNEGINT": r"\d+",
    "WORD": r"\b\w+\b",
    "NOTSPACE": r"\S+",
    "SPACE": r"\s*",
    "DATA": ".*?",
    "GREEDYDATA": ".*",
    "QUOTEDSTRING": r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`)""",
    "QS": "%{QUOTEDSTRING}",
    "UUID": "[A-Fa-f0-9]{8}-(?:[A-Fa-f0-9]{4}-){3}[A-Fa-f0-9]{12}",
    "URN": r"urn:[0-9A-Za-z][0-9A-Za-z-]{0,31}:[^\s]+",
    # networks
    "MAC": "(?:%{CISCOMAC}|%{WINDOWSMAC}|%{COMMONMAC})",
    "CISCOMAC": r"(?:[A-Fa-f0-9]{4}\.){2}[A-Fa-f0-9]{4}",
    "WINDOWSMAC": "(?:[A-Fa-f0-9]{2}-){5}[A-Fa-f0-9]{2}",
    "COMMONMAC": "(?:[A-Fa-f0-9]{2}:){5}[A-Fa-f0-9]{2}",
    "IPV4": rf"(?:{_OCTET}\.){{3}}{_OCTET}",
    "IPV6": rf"(?:(?:{_HEX4}:){{7}}{_HEX4}|(?:{_HEX4}:){{1,7}}:|(?:{_HEX4}:){{1,6}}(?::{_HEX4}){{1,6}}"
    rf"|::(?:ffff:)?(?:{_OCTET}\.){{3}}{_OCTET}|::(?:{_HEX4}:){{0,6}}{_HEX4}|::)(?:%\w+)?",
    "IP": "(?:%{IPV6}|%{IPV4})",
    "HOSTNAME": r"\b[0-9A-Za-z][0-9A-Za-z_-]{0,62}(?:\.[0-9A-Za-z][0-9A-Za-z_-]{0,62})*\.?",
    "IPORHOST": "(?:%{IP}|%{HOSTNAME})",
    "HOSTPORT": "%{IPORHOST}:%{POSINT}",
    # paths and addresses
    "PATH": "(?:%{UNIXPATH}|%{WINPATH})",
    "UNIXPATH": r"(?:/[\w_%!$@:.,+~-]*)+",
    "WINPATH": r"(?:[A-Za-z]+:|\\)(?:\\[^\\?*]*)+",
    "TTY": r"/dev/(?:pts|tty(?:[pq])?)(?:\w+)?/?\d*",
    "URIPROTO": r"[A-Za-z][A-Za-z0-9+\-.]+",
    "URIHOST": "%{IPORHOST}(?::%{POSINT})?",
    "URIPATH": r"(?:/[A-Za-z0-9$.+!*'(){},~:;=@#%&_\-]*)+",
    "URIQUERY": r"[A-Za-z0-9$.+!*'|(){},~@#%&/=:;_?\-\[\]<>]*",
    "URIPARAM": r"\?%{URIQUERY}",
    "URIPATHPARAM": "%{URIPATH}(?:%{URIPARAM})?",
    "URI": "%{URIPROTO}://(?:%{USER}(?::[^@]*)?@)?(?:%{URIHOST})?(?:%{URIPATHPARAM})?",
    # dates and times
    "MONTH": rf"\b(?:{_MONTH})\b",
    "MONTHNUM": "(?:0?[1-9]|1[0-2])",
    "MONTHNUM2": "(?:0[1-9]|1[0-2])",
    "MONTHDAY": r"(?:0[1-9]|[12]\d|3[01]|[1-9])",
    "DAY": rf"(?:{_DAY})",
    "YEAR": r"(?:\d\d){1,2}",
    "HOUR": r"(?:2[0123]|[01]?\d)",
    "MINUTE": r"[0-5]\d",
    "SECOND": r"(?:[0-5]?\d|60)(?:[:.,]\d+)?",
    "TIME": "%{HOUR}:%{MINUTE}(?::%{SECOND})",
    "DATE_US": "%{MONTHNUM}[/-]%{MONTHDAY}[/-]%{YEAR}",
    "DATE_EU": "%{MONTHDAY}[./-]%{MONTHNUM}[./-]%{YEAR}",
    "DATE": "(?:%{DATE_US}|%{DATE_EU})",
    "DATESTAMP": "%{DATE}[- ]%{TIME}",
    "ISO8601_TIMEZONE": "(?:Z|[+-]%{HOUR}(?::?%{MINUTE}))",
    "ISO8601_SECOND": "%{SECOND}",
    "TIMESTAMP_ISO8601": r"%{YEAR}-%{MONTHNUM}-%{MONTHDAY}[T ]%{HOUR}:?%{MINUTE}(?::?%{SECOND})?"
    "(?:%{ISO8601_TIMEZONE})?",
    "TZ": "(?:[APMCE][SD]T|UTC|GMT|CES?T)",
    "DATESTAMP_RFC822": "%{DAY} %{MONTH} %{MONTHDAY} %{YEAR} %{TIME} %{TZ}",
    "DATESTAMP_RFC2822": "%{DAY}, %{MONTHDAY} %{MONTH} %{YEAR} %{TIME} %{ISO8601_TIMEZONE}",
    "DATESTAMP_OTHER": "%{DAY} %{MONTH} %{MONTHDAY} %{TIME} %{TZ} %{YEAR}",
    "DATESTAMP_EVENTLOG": "%{YEAR}%{MONTHNUM2}%{MONTHDAY}%{HOUR}%{MINUTE}%{SECOND}",
    "HTTPDATE": "%{MONTHDAY}/%{MONTH}/%{YEAR}:%{TIME} %{INT}",
    # syslog
    "SYSLOGTIMESTAMP": "%{MONTH} +%{MONTHDAY} %{TIME}",
    "PROG": r"[\x21-\x5a\x5c\x5e-\x7e]+",
    "SYSLOGPROG": r"%{PROG:program}(?:\[%{POSINT:pid}\])?",
    "SYSLOGHOST": "%{IPORHOST}",
    "SYSLOGFACILITY": "<%{NONNEGINT:facility}.%{NONNEGINT:priority}>",
    "SYSLOGBASE": "%{SYSLOGTIMESTAMP:timestamp} (?:%{SYSLOGFACILITY} )?%{SYSLOGHOST:logsource}"
    " %{SYSLOGPROG}:",
    "SYSLOGLINE": "%{SYSLOGBASE} %{GREEDYDATA:message}",
    "LOGLEVEL": rf"(?i:{_LEVEL})",
    # web servers
    "HTTPDUSER": "(?:%{EMAILADDRESS}|%{USER})",
    "HTTPDERROR_DATE": "%{DAY} %{MONTH} %{MONTHDAY} %{TIME} %{YEAR}",
    "COMMONAPACHELOG": r"%{IPORHOST:clientip} %{HTTPDUSER:ident} %{HTTPDUSER:auth} \[%{HTTPDATE:timestamp}\]"
    r' "(?:%{WORD:verb} %{NOTSPACE:request}(?: HTTP/%{NUMBER:httpversion})?|%{DATA:rawrequest})"'
    r" (?:-|%{NUMBER:response}) (?:-|%{NUMBER:bytes})",
    "COMBINEDAPACHELOG": "%{COMMONAPACHELOG} %{QS:referrer} %{QS:agent}",
    "HTTPD_COMMONLOG": "%{COMMONAPACHELOG}",
    "HTTPD_COMBINEDLOG": "%{COMBINEDAPACHELOG}",
    "HTTPD20_ERRORLOG": r"\[%{HTTPDERROR_DATE:timestamp}\] \[%{LOGLEVEL:loglevel}\] "
    r"(?:\[client %{IPORHOST:clientip}\] )?"
    "%{GREEDYDATA:message}",
    # programs
    "JAVACLASS": r"(?:[a-zA-Z$_][a-zA-Z$_0-9]*\.)*[a-zA-Z$_][a-zA-Z$_0-9]*",
    "JAVAFILE": r"[A-Za-z0-9_. -]+",
    "JAVAMETHOD": r"(?:<(?:cl)?init>|[a-zA-Z$_][a-zA-Z$_0-9]*)",
    "JAVASTACKTRACEPART": r"%{SPACE}at %{JAVACLASS:class}\.%{JAVAMETHOD:method}"
    r"\(%{JAVAFILE:file}(?::%{INT:line})?\)",
    "JAVALOGMESSAGE": ".*",
    "CATALINA_DATESTAMP": "%{MONTH} %{MONTHDAY}, 20%{YEAR} %{HOUR}:%{MINUTE}:%{SECOND} (?:AM|PM)",
}
