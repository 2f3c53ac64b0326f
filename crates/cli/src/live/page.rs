//! The page, its scripts and its data.

use std::sync::PoisonError;
use std::time::Duration;

use super::Data;
use crate::charts::{D3, PLOT};
use crate::html::{self, escaped};
use crate::http::Response;

const SCRIPT: &str = include_str!("live.js");

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

/// The page of a rack that is measured at this interval.
pub fn html(rack: &str, interval: Duration) -> String {
    let body = format!(
        "<main data-interval=\"{}\">\n<h1>Rack {}</h1>\n<p id=\"said\">measuring</p>\n\
         <div id=\"charts\" class=\"small\"></div>\n\
         <h2>Nodes and queue pairs</h2>\n<div class=\"wide\"><table id=\"nodes\"></table></div>\n\
         <section id=\"lent\" hidden>\n<h2>Lent memory</h2>\n\
         <div class=\"wide\"><table id=\"lenders\"></table></div>\n</section>\n</main>\n\
         <script src=\"d3.js\"></script>\n<script src=\"plot.js\"></script>\n<script src=\"live.js\"></script>\n",
        interval.as_secs_f64(),
        escaped(rack)
    );
    html::page(&format!("rackmem top: {rack}"), &body)
}

/// What is at a path; `None`: nothing.
pub fn response(path: &str, page: &str, data: &Data) -> Option<Response> {
    let response = match path {
        "/" => Response::page("text/html; charset=utf-8", page),
        "/d3.js" => Response::page(JAVASCRIPT, D3),
        "/plot.js" => Response::page(JAVASCRIPT, PLOT),
        "/live.js" => Response::page(JAVASCRIPT, SCRIPT),
        // Browsers ask for it unasked.
        "/favicon.ico" => Response::page("image/x-icon", ""),
        "/data.json" => {
            let data = data.lock().unwrap_or_else(PoisonError::into_inner).clone();
            // Until the first measurement is there.
            Response::page("application/json", data.unwrap_or_else(|| b"null".to_vec()))
        }
        _ => return None,
    };
    Some(response)
}
